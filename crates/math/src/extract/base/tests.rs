use super::*;
use crate::extract::introduced::sentence_before;

fn base(text: &str) -> Option<u32> {
    let start = text.find("\\boxed{").unwrap();
    let end = start + text.suffix_from(start).find('}').unwrap() + 1;
    let content = text.slice(start + "\\boxed{".len()..end - 1);
    named(text, start..end, sentence_before(text, start).0, content).filter(|base| *base != 10)
}

#[test]
fn a_base_beside_a_box_is_found() {
    for text in [
        "Base 7: \\boxed{15}",
        "In base 7, the answer is $\\boxed{15}$",
        "so in base-7 it is \\boxed{15}",
        "Therefore the base $7$ representation is \\boxed{15}",
        "Written in base seven: \\boxed{15}",
        "Using base 7, \\boxed{15}",
        "Converting from base 10 to base 7 gives \\boxed{15}",
        "The answer in base 7 is \\boxed{15}",
        "$\\boxed{15}_7$",
        "$\\boxed{15}_{7}$",
        "$\\boxed{15}_{\\text{seven}}$",
        "\\boxed{15} base 7",
        "$\\boxed{15}$ (in base 7)",
        "\\boxed{15} in base 7.",
        "12 in base 7 is \\boxed{15}",
        "Twelve in base seven is \\boxed{15}",
        "In base 7:\n\\[\\boxed{15}\\]",
        "We work in base 7. So it is \\boxed{15}",
        "\\boxed{15}, written in base 7.",
        "\\boxed{15}, written in base 7 (just a guess)",
        "\\boxed{15}, in base 7 instead of ten",
        "\\boxed{15}. All in base 7.",
        "\\boxed{15}₇",
        "\\boxed{15} in radix 7",
    ] {
        assert_eq!(base(text), Some(7), "{text}");
    }
    assert_eq!(base("In binary: \\boxed{101}"), Some(2));
    assert_eq!(base("\\boxed{FF} in hexadecimal"), Some(16));
    assert_eq!(base("0x$\\boxed{15}$"), Some(16));
}

#[test]
fn a_base_of_something_else_is_none_of_the_box() {
    for text in [
        "Base 10: \\boxed{15}",
        "Converting from base 7 to base 10 gives \\boxed{15}",
        "From base 7 we get \\boxed{15}",
        "The largest base 2 integer is \\boxed{255}",
        "In base 7, this number has \\boxed{3} digits",
        "The sum of its digits in base 7 is \\boxed{3}",
        "21 in base 7 is \\boxed{15}",
        "The triangle has base 7 and area \\boxed{14}",
        "Base 7, height 4, area \\boxed{14}",
        "The base is \\boxed{7}",
        "It is $120_7$ in base 7. So it is \\boxed{63}",
        "\\boxed{15}, in base 7 it is 21",
        "In base 7: \\boxed{15_7}",
        "\\boxed{9}_7",
        "We work in base 7: 21. In base 10 that is \\boxed{15}",
        "10x\\boxed{15}",
    ] {
        assert_eq!(base(text), None, "{text}");
    }
}
