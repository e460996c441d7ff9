"""`python -m eagle_tui` is `eagle-tui`."""

from eagle_tui.cli.main import main

if __name__ == "__main__":
    main()
