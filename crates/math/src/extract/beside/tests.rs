use super::*;

fn is_beside(text: &str) -> bool {
    let start = text.find("\\boxed").unwrap();
    let end = start + text.suffix_from(start).find('}').unwrap() + 1;
    is_part(text, start..end, false)
}

#[test]
fn a_box_in_a_larger_formula_is_no_answer() {
    for text in [
        r"$x \ne \boxed{36}$",
        r"$x > \boxed{36}$",
        r"\(x \le \boxed{36}\)",
        r"It is -$\boxed{36}$",
        r"$-\boxed{36}$",
        r"-\boxed{36}",
        r"$2\boxed{36}$",
        r"$2 \cdot \boxed{36}$",
        r"$\boxed{36}\%$",
        r"\boxed{36}\%",
        r"$\boxed{36}^2$",
        r"\boxed{36}^{10}",
        r"$\boxed{36}/2$",
        r"\boxed{36}/2",
        r"$\boxed{36} + 1$",
        r"\boxed{36} + 1",
        r"$\boxed{36}!$",
        r"\boxed{36} million",
        r"$\boxed{36}$ million",
        r"$\boxed{36}\text{ million}$",
        r"$\boxed{36}\pi$",
        r"$\boxed{36}x$",
        r"\boxed{36}.5",
        r"\boxed{36},000",
    ] {
        assert!(is_beside(text), "{text}");
    }
}

#[test]
fn an_equation_and_a_sentence_around_a_box_leave_it_the_answer() {
    for text in [
        r"x = \boxed{36}",
        r"$x = \boxed{36}$.",
        r"$x_1 = \boxed{36}$",
        r"$A = r^2 = \boxed{36}$",
        r"$a + b = \boxed{36}$",
        r"$f(2) = \boxed{36}$",
        r"$\angle ABC = \boxed{36}^\circ$",
        r"$\boxed{36}^{\circ}$",
        r"$\boxed{36}^{\text{th}}$",
        r"$\boxed{36}$ apples",
        r"= \boxed{36}",
        r"$3 \cdot 12 = \boxed{36}$",
        r"$x \approx \boxed{36}$",
        r"$\boxed{36}\text{ cm}^2$",
        r"It is \boxed{36}!",
        r"- \boxed{36}",
        r"**Answer:** $\boxed{36}$ - done",
        r"\boxed{36} - as it was asked",
        r"<answer>\boxed{36}</answer>",
        r"$x \implies \boxed{36}$",
        r"It costs $5, so \boxed{36}",
        r"It costs \$5, so $\boxed{36}$",
        r"$\boxed{36} \text{ units}$",
        r"$$x = \boxed{36}$$",
        r"\[ \boxed{36} \]",
        r"$\boxed{36} = 6^2$",
        r"\boxed{36}, 000 others",
        r"\boxed{36}).",
    ] {
        assert!(!is_beside(text), "{text}");
    }
}
