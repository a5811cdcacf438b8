"""Formulas in MathML as TeX."""

import pytest

from ingestor.parsers.shared.formulas import in_tex


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        ("<mfrac><mn>1</mn><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow></mfrac>", r"\frac{1}{a+b}"),
        ("<msup><mfrac><mi>a</mi><mi>b</mi></mfrac><mn>2</mn></msup>", r"{\frac{a}{b}}^{2}"),
        ("<mmultiscripts><mi>C</mi><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts>", "{}_{6}^{14}{C}"),
        ("<mover><mi>x</mi><mo>¯</mo></mover><mo>&lt;</mo>", r"\bar{x}<"),
        ("<mi xlink:href='#x'>x</mi>&nbsp;<mi>y</mi>", "xy"),
        ("<mrow>" * 400 + "<mi>x</mi>" + "</mrow>" * 400, ""),
    ],
)
@pytest.mark.parametrize("head", ["<math>", '<math xmlns="http://www.w3.org/1998/Math/MathML">'])
def test_mathml_is_written_as_tex_and_damage_as_nothing(formula: str, head: str, shown: str) -> None:
    assert in_tex(f"{head}{formula}</math>") == shown
