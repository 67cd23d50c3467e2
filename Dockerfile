# The server with its embedded voice.  Build: docker build -t realtime-tts .   Run: docker run -p 8000:8000 realtime-tts
FROM python:3.11-slim

RUN useradd --create-home voice
WORKDIR /app
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY realtime_tts realtime_tts
COPY web_demo web_demo
RUN pip install --no-cache-dir .

USER voice
# Prepares the model once, so that every start is fast, and fails the build if speech does not work.
RUN realtime-tts doctor
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"
# Access is limited by the container's network: publish the port only to networks whose machines may all use it.
CMD ["realtime-tts", "serve", "--host", "0.0.0.0", "--allow-public"]
