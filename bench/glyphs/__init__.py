"""The packaged base of the kind `diffusion`: from Debian's free fonts to a trained network."""
