"""What owners share: bytes of memory and disk, and turns."""
