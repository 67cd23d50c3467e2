"""Entry point: `python -m realtime_tts` is the command `realtime-tts`."""

from realtime_tts.cli.main import main

if __name__ == "__main__":
    main()
