"""Formulas as a line of text: Office Math and MathML say the same."""

# ruff: noqa: E501 - markup reads better in one line

import re
from xml.etree.ElementTree import fromstring

from ingestor.parsers.shared.formulas import linear

NAMESPACE = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def office(body: str) -> str:
    """Short tags: <f> is m:f; what is not a tag is a run of text."""
    runs = re.sub(r">([^<]+)<", r"><r><t>\1</t></r><", f"<oMath {NAMESPACE}>{body}</oMath>")
    return linear(fromstring(re.sub(r"<(/?)(?=[a-zA-Z])", r"<\1m:", runs)))


def markup(body: str) -> str:
    return linear(fromstring(f'<math xmlns="http://www.w3.org/1998/Math/MathML">{body}</math>'))


def test_office_formula_keeps_what_its_places_mean() -> None:
    for formula, shown in [
        ("<e>y=</e><f><num>1</num><den>a+b</den></f>", "y=1/(a+b)"),
        ("<sSup><e>x</e><sup>2</sup></sSup><sSup><e>e</e><sup>i+1</sup></sSup>", "x²e^(i+1)"),
        ("<sSup><e><f><num>a</num><den>b</den></f></e><sup>2</sup></sSup>", "(a/b)²"),
        ("<sSup><e><d><e>a+b</e></d></e><sup>2</sup></sSup>", "(a+b)²"),
        ("<sSubSup><e>x</e><sub>ij</sub><sup>n</sup></sSubSup>", "x_ij^n"),
        ("<sPre><sub>6</sub><sup>14</sup><e>C</e></sPre>", "¹⁴₆C"),
        ("<sPre><sub>i</sub><sup>n</sup><e>X</e></sPre>", "_i^n X"),
        ("<rad><deg/><e>2x</e></rad><rad><deg>3</deg><e>8</e></rad>", "√(2x)³√(8)"),
        ('<nary><naryPr><chr m:val="∑"/></naryPr><sub>i=1</sub><sup>n</sup><e>i</e></nary>', "∑_(i=1)^n i"),
        ('<d><dPr><begChr m:val="["/><endChr m:val="]"/></dPr><e>a</e><e>b</e></d>', "[a|b]"),
        ("<d><e><m><mr><e>1</e><e>0</e></mr><mr><e>0</e><e>1</e></mr></m></e></d>", "(1, 0; 0, 1)"),
        ("<func><fName><limLow><e>lim</e><lim>x→0</lim></limLow></fName><e>f</e></func>", "lim_(x→0) f"),
        ('<acc><accPr><chr m:val="⃗"/></accPr><e>v</e></acc>', "v⃗"),
        ("<acc><accPr/><e>p</e></acc>", "p̂"),
        ('<bar><barPr><pos m:val="top"/></barPr><e>xy</e></bar>', "x̅y̅"),
        ("<bar><e>x</e></bar>", "x̲"),
        ('<d><e><f><fPr><type m:val="noBar"/></fPr><num>n</num><den>k</den></f></e></d>', "(n¦k)"),
        ("<eqArr><e>p</e><e>q</e></eqArr>", "p; q"),
    ]:
        assert office(formula) == shown


def test_mathml_keeps_what_its_places_mean() -> None:
    for formula, shown in [
        ("<mfrac><mn>1</mn><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow></mfrac>", "1/(a+b)"),
        ("<msup><mfrac><mi>a</mi><mi>b</mi></mfrac><mn>2</mn></msup>", "(a/b)²"),
        ("<msup><mrow><mo>(</mo><mi>a</mi><mo>+</mo><mi>b</mi><mo>)</mo></mrow><mn>2</mn></msup>", "(a+b)²"),
        ("<msup><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></msup>", "(a+b)²"),
        ("<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>", "x_i²"),
        ("<mmultiscripts><mi>C</mi><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts>", "¹⁴₆C"),
        ("<mmultiscripts><mi>R</mi><mi>i</mi><mn>2</mn></mmultiscripts>", "R_i²"),
        ("<mover><mi>x</mi><mo>¯</mo></mover>", "x̅"),
        ("<mover><mi>v</mi><mo>→</mo></mover>", "v⃗"),
        ("<mover><mi>x</mi><mi>n</mi></mover>", "x^n"),
        ("<munder><mi>x</mi><mo>_</mo></munder>", "x̲"),
        ('<mfrac linethickness="0"><mi>n</mi><mi>k</mi></mfrac>', "(n¦k)"),
        ('<mo>(</mo><mfrac linethickness="0"><mi>n</mi><mi>k</mi></mfrac><mo>)</mo>', "(n¦k)"),
        ('<mfenced><mfrac linethickness="0pt"><mi>n</mi><mi>k</mi></mfrac></mfenced>', "(n¦k)"),
        ("<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi>", "∑_(i=1)^n i"),
        ("<mroot><mn>8</mn><mn>3</mn></mroot>", "³√(8)"),
    ]:  # fmt: skip
        assert markup(formula) == shown
