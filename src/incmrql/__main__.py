"""`python -m incmrql` is the command `incmrql`."""

from incmrql.cli import main

if __name__ == "__main__":
    main()
