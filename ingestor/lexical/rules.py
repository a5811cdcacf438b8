"""Version and limits of the rules of terms, apart from terms.py, which takes long to import. Pure."""

# Languages as metadata has them (ISO 639-1), and their names in Snowball; terms.py has the rules of Hebrew.
ALGORITHMS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian",
    "fi": "finnish", "fr": "french", "ga": "irish", "he": "hebrew", "hi": "hindi",
    "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "nb": "norwegian", "ne": "nepali",
    "nl": "dutch", "nn": "norwegian", "no": "norwegian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
    "yi": "yiddish",
}  # fmt: skip
VERSION = 3  # raised whenever the same text gives other terms: indexes are made again
LONGEST = 64  # characters of a term; longer ones are cut
