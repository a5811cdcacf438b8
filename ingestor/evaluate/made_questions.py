"""Makes questions from the documents' text, without a model and deterministically. Pure.

A document's own questions, such as the headings of an FAQ, are used unchanged, and so are the terms of its
definitions. In English, headings become questions about the paragraph below, and templates turn sentences
into questions. The heading "Booking the crane" becomes "How do I book the crane?". The sentence "If the wind
is strong, close the gate" becomes "What happens if the wind is strong?". A template asks for the main clause,
the reason, the object or the figure, which the question omits. Questions about two noun phrases of a sentence
are used last. In other languages the question is a sentence's five rarest words.

The excerpt to find is the sentence with its neighbours, the definition, or the text below a heading. Without
the neighbours the order of strategies was wrong: chunks of 30 tokens, about one sentence each, scored best.
Recall *at an equal budget of tokens* by such questions orders strategies much as real questions do
(docs/evaluate.md has the correlations). The value of recall itself means nothing.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from ingestor.core.fingerprint import text_digest
from ingestor.evaluate.scores import EvalQuestion, Excerpt
from ingestor.model import Document
from ingestor.text.sentences import sentences
from ingestor.text.spans import Span, inside, trim


def _split(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORD = re.compile(r"\w[\w'’-]*")
_ADDRESS = re.compile(r"(?<!\S)(?=\S*?(?:://|@|www\.))\S*")
_FEWEST, _MOST = 8, 80  # words of an excerpt
_KEYWORDS = 5  # words of a question in a language without templates
_SHORTEST = 3  # words of a question
_GAP = 2  # characters between two sentences of one excerpt
_TERM = 60  # characters of the longest term
_OWN = 150  # characters of the longest question of a document's own
_LAST = 2  # rank of questions that are used last
_LEAST_WORDS = 2  # least number of words of a question that carry meaning
_SKIPPED = frozenset({"heading", "code", "table", "front_matter", "rule", "html", "comment", "label"})
_LIGHT = _split("""
    a about above after again all also although always am among an and another any are as at be because
    been before being below between both but by can could did do does doing down during each either else
    even ever every few first for from further get given had has have having he her here hers him his
    how however i if in instead into is it its itself just last later least less let like made make
    makes many may me might more most much must my neither never no nor not now of off often on once one
    only or other others our out over own per rather same second she should since so some such than that
    the their them then there these they this those though three through thus to too two under until up
    upon us use used uses using very was we well were what when where whether which while who whom whose
    why will with within without would yet you your happens know company come comes go goes early late
""")  # words of English that carry no meaning of their own
_VAGUE = re.compile(  # words that only the text before explains
    r"\b(?:it|its|this|these|those|they|them|their|he|she|his|her|such|above|below|here|former|latter|"
    r"following|same|aforementioned|thereof|herein|respectively|(?:even|do) that|that case|do so|doing so)\b",
    re.I,
)
_FINITE = _split("""
    is are was were has have had can will must that which who may should could would do does did not be
    been when where if and/or
""")  # verbs and words that no subject contains
_OPENERS = _split("""
    also however then thus therefore instead otherwise first second next finally additionally moreover
    there here note so and but or for in on at by with if when while as to see not no what how why
    although because since unless until after before once where which who please
""")  # words that open a sentence, but no subject
_COUNTS = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_NUMBER = (
    r"(?:(?:about |approximately |nearly |almost |over |more than |up to |at least |at most )?"
    r"(?:[$€£] ?)?\d[\d.,]*\d?(?: ?(?:%|percent|per cent|million|billion|thousand))?|"
    rf"(?:{_COUNTS}))"
)
_SOME = r"(?P<c>[a-z-]+(?: [a-z-]+)?s)"  # things that are counted
_ON = r"(?!\w+(?:,| and | or ))"  # a main clause, no list
_W = r"[\w’'“”\"./+-]+"
_S = (  # a subject
    rf"(?P<s>(?=[A-Z“\"])(?:(?:The|An?|Our|Your|All|Each|Every|Some|Most|Any|No|Such) )?{_W}(?: {_W}){{0,3}}?"
    rf"(?: (?:of|for|in|on|to|from|with) (?:the |an? |our |your )?{_W}(?: {_W}){{0,2}}?)?)"
)
_C = r"(?P<c>[^,;:.()]{8,80})"  # a clause
_PP = (
    r"(?P<pp> (?:in|for|during|at|as of|per) [^,;:.()]{3,40}?)?(?=[,;:.(]| (?:and|but|compared|from|to|or)\b)"
)
_VERBS = (
    "require|provide|create|remove|produce|operate|own|sell|manufacture|affect|contain|specify|determine|"
    "include|represent|describe|generate|recognize|employ|consist of|depend on|refer to|mean|compete with|"
    "rely on|apply to|comprise"
)
_TRANSITIVE = """
    accept add answer ask avoid block book borrow bring build buy call carry catch cause change charge check
    choose clean close collect compare connect control copy cover cut decide define delete deliver describe
    display divide draw drive eat enter examine explain fill find finish fix follow get give grow guide handle
    help hold identify ignore improve increase indicate inform install invite issue join keep kill know leave
    lend lift limit list load lose maintain make manage mark measure meet mix move name need offer open order
    pack pay perform pick place plan plant play prepare prevent print process protect prove publish pull push
    put read receive record reduce refuse release rent repair repeat replace report reserve return run save
    search see select send separate serve share show sign start state stop store suggest supply support take
    teach tell test track train transfer treat turn use visit want wash watch wear win write
""".split()  # noqa: SIM905
_DOUBLED = frozenset({"control", "cut", "get", "let", "plan", "put", "run", "stop", "submit", "win"})
_IRREGULAR = {
    "built": "build", "bought": "buy", "brought": "bring", "caught": "catch", "chose": "choose",
    "drew": "draw", "drove": "drive", "ate": "eat", "found": "find", "got": "get", "gave": "give",
    "grew": "grow", "held": "hold", "kept": "keep", "knew": "know", "left": "leave", "lent": "lend",
    "lost": "lose", "made": "make", "met": "meet", "paid": "pay", "ran": "run", "saw": "see",
    "sent": "send", "sold": "sell", "showed": "show", "told": "tell", "took": "take", "taught": "teach",
    "wore": "wear", "won": "win", "wrote": "write",
}  # fmt: skip
_GERUNDS = {  # a heading's first word, and the verb
    (verb[:-1] if verb.endswith("e") and verb != "be" else verb + verb[-1] if verb in _DOUBLED else verb)
    + "ing": verb
    for verb in _TRANSITIVE
}
_FORMS = (  # a verb's form: the auxiliary that asks with it, and the plain form
    {verb: ("do", verb) for verb in _TRANSITIVE}
    | {
        verb + ("es" if verb.endswith(("s", "sh", "ch", "x")) else "s"): ("does", verb)
        for verb in _TRANSITIVE
    }
    | {f"{verb[:-1]}ies": ("does", verb) for verb in _TRANSITIVE if re.search("[^aeou]y$", verb)}
    | {verb + ("d" if verb.endswith("e") else "ed"): ("did", verb) for verb in _TRANSITIVE}
    | {past: ("did", verb) for past, verb in _IRREGULAR.items()}
)
_FORM = f"(?P<form>{'|'.join(_FORMS)})"
_PLAIN = "|".join(_TRANSITIVE)
_ORDERS = "|".join(verb.capitalize() for verb in _TRANSITIVE)
_OBJECT = (
    r"(?:the|an?|all|any|its|their|our|your|no|each|every|both|only|most|many|several|some|\d+|two|three)\b"
)
_LEAD = re.compile(  # a time before the main clause
    r"((?:In|For|During|As of|At|Since|On) (?>[^,;:.()]*?(?:\d|year|quarter|month|week|night|winter|summer|"
    r"spring|autumn|morning|evening|day|season))[^,;:.()]*+(?:, \d{4})?), (?=[a-z])"
)
_TIME = (
    r"in (?:\w+ )?\d{4}|on \w+ \d{1,2}(?:, \d{4})?|since \d{4}|at \d{1,2}(?::\d\d)? ?(?:a\.?m\.?|p\.?m\.?)|"
    r"(?:before|after|until) \w+ \d{1,2}(?:, \d{4})?"
)
_OFTEN = r"(?:every \w+|once an? \w+|twice an? \w+|daily|weekly|monthly|yearly|annually)"
_DONE = (
    r"(?:\w+ed|built|bought|sold|made|held|kept|set|paid|sent|taken|written|known|found|begun|opened|shut)"
)
_MOVED = {
    "increased": "increase", "decreased": "decrease", "rose": "rise", "fell": "fall", "grew": "grow",
    "declined": "decline", "dropped": "drop", "improved": "improve",
}  # fmt: skip
_BE = r"(?P<be>is|are|was|were)"
_KEPT_IN = "stored|located|kept|saved|placed|installed|written|listed|described|documented|held|situated"
_THIRD = "|".join(verb.replace(" ", "s ", 1) if " " in verb else f"{verb}s" for verb in _VERBS.split("|"))
_AGENTS = r"(?P<s>[A-Z][^,;:()]{2,40}?(?:[eo]rs?|members|people|guests|staff|employees|We))"
_NO_VERB = r"(?!(?:the|an?|our|its|their|all|any|this|these|within|which|whom|date)\b)"
_NO_PARTICIPLE = r"(?!\w+(?:ing|ed)\b|necessary|needed|possible|required)"
_AMOUNT = _NUMBER + _PP
# Questions by the form of a sentence; the first that fits is used. {v} is the verb's plain form.
_TEMPLATES = [
    (re.compile(pattern), question)
    for pattern, question in (
        (rf"^If (?P<c>you\b[^,;:.()]{{8,80}}), {_ON}", "What should I do if {c}?"),
        (rf"^If {_C}, {_ON}", "What happens if {c}?"),
        (rf"^(?:In order )?[Tt]o {_C}, we ", "How does the company {c}?"),
        (rf"^(?:When|Whenever) {_NO_PARTICIPLE}{_C}, ", "What happens when {c}?"),
        (rf"^(?:In order )?[Tt]o {_NO_VERB}{_C}, (?!we\b|our\b)", "How do I {c}?"),
        (rf"(?:^(?:{_ORDERS})|\buse) {_OBJECT}[^,;:.()]{{2,50}} to {_NO_VERB}{_C}\.", "How do I {c}?"),
        (
            rf"^(?P<c>(?:{_ORDERS}) {_OBJECT}[^,;:.()]{{3,50}}?) (?:with|by|using|through|via|from|under) ",
            "How do I {imperative}?",
        ),
        (rf"\b(?:allow|let|enable)s? (?:you|users|one) (?:to )?{_C}[.,;]", "What lets me {c}?"),
        (
            r"^You (?:can|may|should|must|need to|have to) (?P<c>(?!not\b)\w+ [^,;:.()]{6,60}?)"
            r" (?:by|with|using|through|via|from) ",
            "How can I {c}?",
        ),
        (rf"^{_S} {_BE} (?P<p>[a-z][^,;:.()]{{3,60}}?),? because ", "Why {be} {s} {p}?"),
        (rf"^{_S} {_FORM} (?P<c>[^,;:.()]{{4,60}}?),? because ", "Why {aux} {s} {v} {c}?"),
        (
            rf"^{_S} (?:total(?:ed|led)|amounted to|came to|reached) {_AMOUNT}",
            "How much did {s} amount to{pp}?",
        ),
        (rf"^{_S} {_BE} {_AMOUNT}", "What {be} {s}{pp}?"),
        (rf"^{_S} (?P<moved>{'|'.join(_MOVED)}) (?:by )?{_AMOUNT}", "By how much did {s} {v}{pp}?"),
        (rf"^There {_BE} {_NUMBER} (?P<c>[a-z-]+(?: [a-z-]+){{0,2}}){_PP}", "How many {c} {be} there{pp}?"),
        (rf"^{_S} (?P<has>has|have|had) {_NUMBER} {_SOME}{_PP}", "How many {c} {v} {s} have{pp}?"),
        (rf"^{_S} {_FORM} {_NUMBER} (?!thirds|times){_SOME}{_PP}", "How many {c} {aux} {s} {v}{pp}?"),
        (rf"^{_S} costs? {_AMOUNT}", "How much does {s} cost{pp}?"),
        (rf"^{_S} {_BE} (?P<p>{_DONE}[^,;:.()]{{0,40}}?) (?:{_TIME})\b", "When {be} {s} {p}?"),
        (
            rf"^{_S} (?P<be>must|should) be (?P<p>{_DONE}[^,;:.()]{{0,30}}?) {_OFTEN}\b",
            "How often {be} {s} be {p}?",
        ),
        (
            rf"^(?P<c>[A-Z][a-z]+ (?:the|your|all|each|every|any|its) [^,;:.()]{{3,50}}?) {_OFTEN}[.,]",
            "How often should I {imperative}?",
        ),
        (rf"^{_S} {_BE} (?P<p>{_KEPT_IN}) (?:in|at|on|under|by|near) ", "Where {be} {s} {p}?"),
        (rf"^{_S} {_BE} (?P<p>{_DONE}) by (?!\w+ing\b|default\b|a factor)", "What {be} {s} {p} by?"),
        (rf"^{_S} {_BE} (?:an?|one of|used (?:to|for|by|as)|intended (?:to|for)) ", "What {be} {s}?"),
        (rf"^{_S} (?P<verb>{_THIRD}) ", "What does {s} {v}?"),
        (rf"^(?:{_S}|(?P<we>We)) (?P<verb>{_VERBS}) ", "What do {s} {v}?"),
        (rf"^(?:{_S}|(?P<we>We)) {_FORM} (?={_OBJECT})", "What {aux} {s} {v}?"),
        (rf"^{_S} (?P<be>can|may|will|must|should) (?P<v>{_PLAIN}) (?={_OBJECT})", "What {be} {s} {v}?"),
        (rf"^{_S} (?P<be>must|should) be {_DONE}", "What {be} be done with {s}?"),
        (rf"^{_AGENTS} (?P<be>must|should|can|may) (?!be\b|have\b|not\b)[a-z]+", "What {be} {s} do?"),
        (
            rf" (?:only )?(?P<w>(?:if|when) {_NO_PARTICIPLE}|(?:before|after|while) (?={_OBJECT}))"
            r"(?P<c>[^,;:.()]{12,80})\.$",
            "What happens {w}{c}?",
        ),
    )
]
_WORD_OF_NAME = r"(?!\w+(?:ing|ed|ly)\b|who\b|whose\b|said\b)[\w’'-]+"
_NOUNS = re.compile(  # noun phrases: from an article to the end of the phrase
    rf"\b(?P<np>(?:[Tt]he|[Aa]n?|[Oo]ur|[Yy]our) {_WORD_OF_NAME}(?: {_WORD_OF_NAME}){{0,2}}?"
    rf"(?: of (?:the |an? )?{_WORD_OF_NAME}(?: {_WORD_OF_NAME})?)?)"
    r"(?=[,;:.()]| (?:in|on|at|to|by|for|from|with|into|over|under|and|or|is|are|was|were|can|must|should"
    r"|may|will|has|have|had|that|which|when|if|as|it|they|you|we|not|so|than|because|while|until)\b)"
)
_GENERAL = _split("""
    advantage amount amounts basis beginning bottom case cases certain course date day days end event
    example extent fact first information kind last latest left level lot majority note notes number
    numbers order other others part parts period purpose range reason rest result results right section
    sections set system systems table time times top type types use variety way ways year years
""")  # nouns without a meaning of their own


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible question about a document.

    ``rank``: candidates with a lower rank are used first. ``asked``: the question; "" if it is composed
    later, from words that are rare in all documents. ``span``: the text that the question is about.
    ``excerpt``: the text that a search should find.
    """

    rank: int
    asked: str
    span: Span
    excerpt: Span


def make_questions(documents: Sequence[Document], count: int, seed: int = 0) -> list[EvalQuestion]:
    """Make at most ``count`` questions about the documents; documents with more prose get more questions.

    A document whose language is unknown counts as English. Another ``seed`` gives other questions.
    """
    texts = [document.text for document in documents]
    whole, salt = "\n".join(texts), f"{seed} " if seed else ""
    candidates = [(at, each) for at, document in enumerate(documents) for each in _candidates(document)]
    times = Counter(each.asked.casefold() for _, each in candidates)
    is_composed = not all(each.asked for _, each in candidates)
    words = Counter(_WORD.findall(whole.casefold()) if is_composed else ())

    def digest(number: int, each: _Candidate) -> str:
        return text_digest(f"{salt}{number} {texts[number][slice(*each.span)]}")

    def make() -> Iterator[EvalQuestion]:
        for number, each in sorted(candidates, key=lambda pair: (pair[1].rank, digest(*pair), pair[1].span)):
            text = texts[number][slice(*each.span)]
            asked = each.asked or _keywords(text, words)
            is_clear = not each.asked or times[each.asked.casefold()] == 1
            if asked and is_clear and whole.count(text) == 1:
                yield EvalQuestion(asked, (Excerpt(number, *each.excerpt),), origin="made")

    return list(islice(make(), count))


def _candidates(document: Document) -> Iterator[_Candidate]:
    """Yield all possible questions about a document."""
    yield from _own_questions(document)
    yield from _definitions(document)
    english = (document.language or "en").partition("-")[0].lower() == "en"
    lower = set[str]()  # words that are not names: in lower case more often than capitalised in a sentence
    if english:
        small = Counter(re.findall(r"(?<![\w./@:-])[a-z][\w’'-]*(?![\w./@:-]*[/@])", document.text))
        names = Counter(name.lower() for name in re.findall(r"(?<=[a-z,] )[A-Z][\w’'-]*", document.text))
        lower = {word for word, times in small.items() if times > names[word]}
        yield from _headings(document, lower)
    other = [(block.start, block.end) for block in document.blocks if block.kind in _SKIPPED]
    prose = [span for span in sentences(document.text, language=document.language) if not inside(other, span)]
    for at, (start, end) in enumerate(prose):
        text = " ".join(document.text[start:end].split())
        if not _FEWEST <= len(_WORD.findall(text)) <= _MOST:
            continue
        excerpt = _widen(prose, at)
        if not english:
            yield _Candidate(1, "", (start, end), excerpt)
            continue
        related = _relate(text, lower)
        asked = list(dict.fromkeys(filter(None, (*_ask_by_templates(text, lower), related))))
        for rank, question in enumerate(asked):
            yield _Candidate(_LAST if question == related else min(rank, 1), question, (start, end), excerpt)


def _own_questions(document: Document) -> Iterator[_Candidate]:
    """Yield headings and paragraphs that are questions themselves; the block below each is the answer."""
    for block, body in pairwise(document.blocks):
        start, end = trim(document.text, (block.start, block.end))
        asked = " ".join(document.text[start:end].lstrip("#*_ ").rstrip("#*_ ").split())
        asked = re.sub(r"^(?:[\d.]+|Q\d*[:.])\s+", "", asked)
        if (
            asked.endswith(("?", "？", "؟"))
            and len(asked) <= _OWN
            and (len(_WORD.findall(asked)) >= _SHORTEST or not asked.isascii())
            and body.kind not in _SKIPPED
            and not document.text[body.start : body.end].rstrip().endswith("?")
        ):
            yield _Candidate(0, asked, (start, end), trim(document.text, (body.start, body.end)))


def _headings(document: Document, lower: set[str]) -> Iterator[_Candidate]:
    """Yield questions made from headings; the paragraph below each heading is the answer.

    ``lower``: words that the document also writes in lower case, so that they are no names.
    """
    for block, body in pairwise(document.blocks):
        if block.kind == "heading" and body.kind == "paragraph":
            start, end = trim(document.text, (block.start, block.end))
            title = " ".join((block.title or document.text[start:end]).split())
            if question := _ask_for_heading(re.sub(r"^(?:[\d.]+|[A-Z]\.)\s+", "", title), lower):
                yield _Candidate(1, question, (start, end), trim(document.text, (body.start, body.end)))


def _ask_for_heading(title: str, lower: set[str]) -> str:
    """Turn a heading of two to seven words into a question; "" if the heading's words do not allow that.

    ``lower``: words that the document usually writes in lower case.
    """
    words = title.split()
    if not (2 <= len(words) <= 7 and re.fullmatch(r"[\w’'/ -]+", title)) or _VAGUE.search(title):
        return ""
    first, *others = map(str.lower, words)
    if first == "how" and others[0] == "to":
        return _turn_person(f"How do I {' '.join(words[2:])}?") if len(words) > 3 else ""
    is_sentence = not {*_FORMS, *_FINITE, "into", "onto"}.isdisjoint(others)
    meaningful = [word for word in (first, *others) if word not in _LIGHT | _GENERAL]
    if is_sentence or first in _OPENERS or len(meaningful) < _LEAST_WORDS:
        return ""
    verb = _GERUNDS.get(first, first if first in _TRANSITIVE else "")
    if verb and re.match(_OBJECT, " ".join(others)):
        return _turn_person(f"How do I {verb} {_as_object(' '.join(words[1:]), lower)}?")
    return _turn_person(f"What should I know about {_as_object(title, {*lower, *_GERUNDS})}?")


def _definitions(document: Document) -> Iterator[_Candidate]:
    """Yield questions about the terms that a document defines; the definition is the answer."""
    for block, body in pairwise(document.blocks):
        term = " ".join(document.text[block.start : block.end].split()).rstrip(":")
        if block.kind == "definition" != body.kind and 0 < len(term) <= _TERM and not term.endswith("?"):
            asked = f"What is {term} for?" if term.startswith(("/", "$", "~")) else f"What is {term}?"
            if term.startswith("-"):
                asked = f"What does {'the option ' if ',' in term else ''}{term} do?"
            yield _Candidate(0, asked, (block.start, block.end), (block.start, body.end))


def _widen(spans: Sequence[Span], at: int) -> Span:
    """Return the span of sentence number ``at`` together with the sentences directly before and after it.

    A sentence of another paragraph is not included.
    """
    first = at - (at > 0 and spans[at][0] - spans[at - 1][1] <= _GAP)
    last = at + (at + 1 < len(spans) and spans[at + 1][0] - spans[at][1] <= _GAP)
    return spans[first][0], spans[last][1]


def _ask_by_templates(text: str, lower: set[str]) -> Iterator[str]:
    """Yield a question about a sentence for each template that matches; "" if the question makes no sense.

    ``lower``: words that the document usually writes in lower case.
    """
    lead, rest = "", text
    if opening := _LEAD.match(text):
        lead, rest = f" {opening[1][0].lower()}{opening[1][1:]}", text[opening.end() :]
        rest = rest[0].upper() + rest[1:]
    for pattern, question in _TEMPLATES:
        if match := pattern.search(rest):
            yield _fill(question, match, lead, lower)


def _fill(question: str, match: "re.Match[str]", lead: str, lower: set[str]) -> str:
    """Fill a template with the parts of a sentence; return "" if the question would not make sense by itself.

    ``match``: the parts of the sentence that the template names. ``lead``: the words about time with which
    the sentence opens. ``lower``: words that the document usually writes in lower case.
    """
    groups = {key: value or "" for key, value in match.groupdict().items()}
    subject = groups.get("s") or groups.get("we", "")
    clause = groups.get("c", "")
    if (subject and not _is_subject(subject)) or (
        "imperative" in question and clause.split()[0].lower() not in lower
    ):
        return ""
    if question == "What {be} {s}?":
        if re.match(r"(?:Our|Every|Each|Any|No|Some|Most|All|Such) ", subject):
            return ""
        question = "Who {be} {s}?" if re.match(r"(?:Mr|Mrs|Ms|Dr|Prof)\b", subject) else question
    groups |= _verb(groups)
    is_plural = re.search("s$|^We$", subject)
    if (question.startswith("What do {s}") or groups.get("aux") == "do") and not is_plural:
        return ""
    imperative = clause[:1].lower() + clause[1:]
    parts = {"pp": "", **groups, "s": _as_object(subject, lower), "imperative": imperative}
    asked = question.format_map(parts)
    asked = _turn_person(f"{asked[:-1].rstrip()}{lead if not groups.get('pp') else ''}?")
    meaningful = [word for word in _WORD.findall(asked) if word.lower() not in _LIGHT]
    if (
        _VAGUE.search(asked)
        or len(meaningful) < (1 if question == "What {be} {s}?" else _LEAST_WORDS)
        or len(asked) > _OWN
    ):
        return ""
    return asked[0].upper() + asked[1:]


def _verb(groups: Mapping[str, str]) -> dict[str, str]:
    """Return the verb's plain form under ``v``, and under ``aux`` the auxiliary verb that the question needs.

    ``groups``: the parts of the sentence by name. The result is empty if they have no verb.
    """
    if "moved" in groups:
        return {"v": _MOVED[groups["moved"]]}
    if "has" in groups:
        return {"v": {"has": "does", "have": "do", "had": "did"}[groups["has"]]}
    if "form" in groups:
        aux, plain = _FORMS[groups["form"]]
        return {"aux": aux, "v": plain}
    if "verb" not in groups:
        return {}
    first, _, rest = groups["verb"].partition(" ")
    is_plain = first in {verb.partition(" ")[0] for verb in _VERBS.split("|")}
    return {"v": f"{first if is_plain else first[:-1]} {rest}".strip()}


def _is_subject(words: str) -> bool:
    """Return whether the words before a verb are probably a noun phrase, and so its subject."""
    each = words.strip('“”"‘’').split()
    first = each[0].lower() if each else ""
    return (
        words.lower() not in _FORMS
        and first not in _OPENERS | {"we", "you", "i", *_COUNTS.split("|")}
        and not re.search(r"\d ?%|\$", words)
        and not first.endswith("ly")
        and _FINITE.isdisjoint(word.lower() for word in each)
        and not re.search(r"^(?!.*\b(?:of|for|in|on|to|from|with) (?:the|an?)\b).+ (?:the|an?) ", words)
        and each[-1].lower() not in _LIGHT - {"we"}
        and not each[-1].lower().endswith("ly")
    ) or words == "We"


def _as_object(subject: str, lower: set[str]) -> str:
    """Return a subject as written inside a sentence: in lower case, unless its first word is a name."""
    first, _, rest = subject.partition(" ")
    is_common = first.lower() in _LIGHT or first.lower() in lower
    return f"{first.lower() if is_common else first} {rest}".strip()


def _turn_person(question: str) -> str:
    """Turn a question from the author's to the reader's point of view: "your" becomes "my"."""
    for pattern, other in (
        (r"\b(help|helps|let|lets|allows?|gives?|tells?|shows?|to|for|with|of|from|by) you\b", r"\1 me"),
        (r"\byou are\b", "I am"), (r"\byou\b", "I"), (r"\byour\b", "my"), (r"\byourself\b", "myself"),
        (r"\b(?:do|are) we\b", "does the company"), (r"\bdid we\b", "did the company"),
        (r"\bour\b", "the company’s"),
    ):  # fmt: skip
        question = re.sub(pattern, other, question, flags=re.I)

    def third_person(match: re.Match[str]) -> str:
        is_fixed = match[1] in _FINITE or match[1].endswith(("ed", "ly", "s"))
        known = {"are": "is", "have": "has", "do": "does", "were": "was"}
        return f"the company {known.get(match[1]) or match[1] + ('' if is_fixed else 's')}"

    return re.sub(r"\bwe (\w+)", third_person, question, flags=re.I)


def _relate(text: str, lower: set[str]) -> str:
    """Return a question about how two noun phrases of a sentence are related; "" if it has fewer than two."""
    phrases = dict[str, None]()
    for match in _NOUNS.finditer(text):
        words = match["np"].split()
        verb = re.search(r"^an? (?!.* of ).*[^sui]s$", match["np"], re.I)
        kept = words[:-1] if verb and len(words) > 2 else words  # "a rock asks" is "a rock"
        phrases[_as_object(" ".join(kept), lower)] = None
    weights = {each: sum(word not in _LIGHT for word in each.lower().split()) for each in phrases}
    plain = [each for each in phrases if weights[each] and _is_plain_phrase(each)]
    heaviest = {e.partition(" of ")[0].split()[-1]: e for e in sorted(plain, key=weights.__getitem__)}
    if len(heaviest) < 2:
        return ""
    first, second = sorted(sorted(heaviest.values(), key=lambda e: -weights[e])[:2], key=list(phrases).index)
    several = re.search(r"^(?!an? ).*[^su]s$", first.partition(" of ")[0], re.I)
    be, do = ("are", "do") if several else ("is", "does")
    forms = (
        f"How {be} {first} related to {second}?",
        f"What {do} {first} have to do with {second}?",
        f"What is the link between {first} and {second}?",
    )
    return _turn_person(forms[len(text) % len(forms)])  # any deterministic choice gives variety


def _is_plain_phrase(phrase: str) -> bool:
    """Return whether a noun phrase has a meaning without its sentence, and probably contains no verb."""
    words = phrase.lower().split()
    return (
        _GENERAL.isdisjoint(words)
        and not _VAGUE.search(phrase)
        and words[-1] not in _FORMS
        and words[-1] not in _LIGHT
        and len(words[-1]) > 2
        and not words[-1][0].isdigit()
        and not (len(words) > 2 and re.search(r"[^su]s$", words[-1]) and " of " not in phrase)
    )


def _keywords(text: str, times: Mapping[str, int]) -> str:
    """Return the rarest words of a sentence, in the sentence's order; "" if the sentence has too few words.

    ``times``: how often each word occurs in all documents. Words of URLs and paths do not count, nor do words
    with digits and short words of an alphabet.
    """
    words = [
        word
        for word in dict.fromkeys(_WORD.findall(_ADDRESS.sub(" ", text)))
        if not re.search(r"\d", word) and (len(word) > 3 or not re.match("[a-zà-ʯͰ-ӿ]", word, re.I))
    ]
    rarest = sorted(words, key=lambda word: (times[word.casefold()], -len(word)))[:_KEYWORDS]
    return " ".join(word for word in words if word in rarest) if len(words) >= _SHORTEST else ""
