# The server with its embedded voice.  Build: docker build -t realtime-tts .   Run: docker run -p 8000:8000 realtime-tts
FROM python:3.11-slim

RUN useradd --create-home voice
WORKDIR /app
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY realtime_tts realtime_tts
COPY web_demo web_demo
RUN pip install --no-cache-dir .

USER voice
# Prepares the voice once, so that every start is a warm one; fails the build where speech would not work.
RUN realtime-tts doctor
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"
# The container's own network is the border here: publish the port only where every peer may speak.
CMD ["realtime-tts", "serve", "--host", "0.0.0.0", "--allow-public"]
