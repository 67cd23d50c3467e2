"""`python -m realtime_tts` is `realtime-tts`."""

from realtime_tts.cli.main import main

if __name__ == "__main__":
    main()
