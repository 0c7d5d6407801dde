use super::*;

#[test]
fn a_choice_is_a_letter_set_apart() {
    for answer in ["B", "(B)", "\\text{(B)}", "\\textbf{(B)}\\ 42", "B. 42", "B) x = 42", "\\textbf{B}", "B."] {
        assert_eq!(of_answer(answer, &Known::default()), Some('B'), "{answer}");
    }
    for answer in ["ABCD", "A or B", "A, B, C, D", "B. or C.", "42", "B42", "B:C", "b", "(B", "2B"] {
        assert_eq!(of_answer(answer, &Known::default()), None, "{answer}");
    }
    assert_eq!(of_gold("\\text{(E)}"), Some('E'));
    assert_eq!(of_gold("C) 14"), Some('C'));
    assert_eq!(of_gold("C: 14"), Some('C'));
    assert_eq!(in_lower_case("(c)"), Some('C'));
    assert_eq!(in_lower_case("e"), None);
    assert_eq!(of_gold("(B) 42"), Some('B'));
    assert_eq!(of_gold("(B) + 42"), None);
    assert_eq!(content("\\textbf{(C)}\\ 17").as_deref(), Some("17"));
    assert_eq!(content("C. 14").as_deref(), Some("14"));
    assert_eq!(content("(C) \\frac12").as_deref(), Some("\\frac12"));
    assert_eq!(several("A, C"), several("AC"));
    assert_eq!(several("BAD"), None);
}

#[test]
fn the_content_of_a_choice_is_that_of_the_task() {
    let mut known = Known::default();
    let task = "What is 6 * 7? (A) 41 (B) 42 (C) \\frac{1}{2} (D) none of them";
    known.add(task);
    known.add_contents(contents_of(task));
    for (answer, letter) in [
        ("(B) 42", 'B'),
        ("B. 42.0", 'B'),
        ("B) $42$", 'B'),
        ("(B) 42 ✓", 'B'),
        ("(C) 0.5", 'C'),
        ("Option B: 42", 'B'),
    ] {
        assert_eq!(of_answer(answer, &known), Some(letter), "{answer}");
    }
    for answer in
        ["(B) 41", "B. 36", "(B) \\ne 42", "(B) \\times", "(B) ✗", "(B) ❌", "~~B~~", "(A) 42", "(B) 42 or 41"]
    {
        assert_eq!(of_answer(answer, &known), None, "{answer}");
    }
    for answer in ["(B) ✗", "(B) ❌", "(B) \\times", "(B) \\ne 42", "~~B~~"] {
        assert_eq!(of_answer(answer, &Known::default()), None, "{answer}");
    }
    assert_eq!(several("A, B, ~~D~~"), None);
}
