//! More kinds of answers as people write them, each with what is near it and must not be rewarded.

use crate::judged::{all, completions};
use evenkeel_math::{CheckInput, CheckOutcome, Gold, Reason, Rules};

#[test]
fn values_of_one_name_are_not_those_of_another() {
    all(
        "k=2,4,9",
        &["k=2, k=4, k=9", "k \\in \\{9,4,2\\}", "9, 4, 2", "k=2,4 \\text{ or } 9"],
        &["m=2,4,9", "k=2, m=4, n=9", "k=2,4", "m \\in \\{2,4,9\\}"],
    );
    all(
        "x=2, x=-7",
        &["x_1=-7, x_2=2", "x \\in \\{-7, 2\\}", "x=2 \\lor x=-7", "2, -7"],
        &["y_1=-7, y_2=2", "x_1=2, x_1=7", "y \\in \\{-7, 2\\}"],
    );
    all("D = (0,2)", &["0 < x < 2", "(0,2)"], &["0 < x < 3", "E = (0,2)"]);
    all("(2,7)", &["x=2, y=7", "y=7, x=2", "\\{x=2, y=7\\}", "P(2,7)"], &["x=7, y=2", "y=2, x=7", "P(7,2)"]);
    all("(2,1)", &["m=2, b=1"], &["m=1, b=2"]);
}

#[test]
fn solutions_in_several_names_are_separate() {
    all(
        "(2,7),(5,1)",
        &[
            "x=2,y=7 \\text{ or } x=5,y=1",
            "x=2,y=7; x=5,y=1",
            "(x,y) \\in \\{(5,1),(2,7)\\}",
            "(2,7) (5,1)",
            "p=2,q=7 \\text{ and } p=5,q=1",
        ],
        &["x=2,y=1 \\text{ or } x=5,y=7", "x=2,y=7", "(2,7) (1,5)"],
    );
    all("a=1, b=2, c=3", &["(1,2,3)"], &["a=1, b=2 \\text{ and } c=4"]);
}

#[test]
fn a_value_at_one_point_is_not_that_at_another() {
    all("f(3)=7", &["7", "f\\left(3\\right)=7", "f(3) = 14/2"], &["f(2)=7", "f\\left(2\\right)=7", "f(7)=3"]);
    all("f^{-1}(2)=6", &["f^{-1}(2)=6", "6"], &["f^{-1}(1)=3", "f^{-1}(6)=2"]);
    all("W(n)=1 \\text{ and } W(n)=-1", &["W(x)=1 or W(x)=-1"], &["W(x)=1 or W(x)=-2"]);
    all("f(x) = x^2+1", &["f(t) = t^2+1", "f(x) = 1 + x^2"], &["f(t) = x^2+1", "f(t) = t^2-1"]);
}

#[test]
fn a_half_open_interval_is_no_pair() {
    all("(3,8]", &["]3,8]", "3 < x \\le 8", "x \\in (3,8]"], &["3, 8", "(3,8)", "]3,8["]);
    all("(-\\infty,1)\\cup(2,\\infty)", &["]-\\infty,1[ \\cup ]2,+\\infty["], &["]-\\infty,1] \\cup ]2,\\infty["]);
    all("[1,2)\\cup(3,4]", &["[1,2[ \\cup ]3,4]"], &["[1,2] \\cup [3,4]"]);
    all(
        "\\mathbb{R}\\setminus\\{4,7\\}",
        &["x \\notin \\{4,7\\}", "\\text{all real numbers except } 4 \\text{ and } 7", "\\mathbb{R} - \\{4,7\\}"],
        &["x \\in \\{4,7\\}", "\\text{all real numbers except } 4", "x \\notin [4,7]"],
    );
    all("(1,9)", &["x>1 \\wedge x<9", "x>1 \\& x<9", "x > 1 & x < 9"], &["x>1 \\vee x<9"]);
}

#[test]
fn words_before_a_formula_must_lead_to_it() {
    all(
        "36",
        &[
            "\\text{The total is } 36",
            "\\text{a total of } 36",
            "it equals 36",
            "36 \\text{ (cm)}",
            "exactly 36",
            "共有36人",
        ],
        &[
            "divisors of 36",
            "the sum of the digits of 36",
            "nearly 36",
            "just under 36",
            "up to 36",
            "the square of 36",
            "minimum 36",
            "36 maximum",
            "36 is a lower bound",
            "36 point five",
            "36 (cm)",
            "36 octal",
            "36 twentieths",
            "36 zillion",
            "36 (million)",
            "36 (mod 40)",
            "36 (in base 13)",
            "36 (or 37)",
            "36 (\\approx 37)",
            "36分之一",
            "至少36",
            "负36",
            "36 Millionen",
            "menos 36",
            "36'",
        ],
    );
    all("A", &["(A)", "a"], &["A number", "A few", "b"]);
    all("\\text{June 9}", &["June 9th"], &["July 9", "9"]);
}

#[test]
fn amounts_in_several_units_are_one_amount() {
    all(
        "75 \\text{ min}",
        &["1 \\text{ h } 15 \\text{ min}", "1 hour and 15 minutes", "1.25 \\text{ hours}"],
        &["1 \\text{ h } 25 \\text{ min}", "1.15 \\text{ h}", "1 \\text{ h}"],
    );
    all("5 \\text{ ft } 6 \\text{ in}", &["66 \\text{ inches}", "5.5 \\text{ ft}"], &["5.6 \\text{ ft}", "56"]);
    // The first unit counts where the gold answer has none.
    all("90", &[], &["1 \\text{ h } 30 \\text{ min}"]);
    all("5 \\text{ m}, 20 \\text{ cm}", &["20 \\text{ cm}, 5 \\text{ m}"], &["5.2 \\text{ m}"]);
    all("20^\\circ \\text{C}", &["20 \\text{ degrees Celsius}", "20"], &["20 \\text{ degrees Fahrenheit}"]);
    all("72^\\circ", &["72^o", "72^{\\text{o}}", "\\frac{2\\pi}{5} \\text{ radians}"], &["72 \\text{ radians}", "72'"]);
    all("400 \\text{ N}", &["400 \\text{ newtons}"], &["400 \\text{ J}"]);
    all("2 \\text{ p.m.}", &["2:00 \\text{ PM}", "14:00"], &["2 \\text{ a.m.}", "2:30 \\text{ p.m.}"]);
}

#[test]
fn one_value_in_several_notations_is_one_value() {
    all("3/5 \\text{ or } 0.6", &["3/5", "0.6"], &["0.7"]);
    all("3/5 \\text{ or } 0.7", &["0.7, 3/5"], &["3/5", "0.7"]);
    all("\\frac35 = 0.6", &["0.6", "3/5"], &["0.7"]);
    all("\\frac35 = 0.7", &[], &["0.6", "0.7"]);
    all(
        "8",
        &["8 \\text{ cm} = 80 \\text{ mm}", "8 \\text{ cm or } 80 \\text{ mm}"],
        &["8 \\text{ cm} = 8 \\text{ mm}"],
    );
    all("5\\sqrt2", &["5\\sqrt{2} (\\approx 7.07)"], &["5\\sqrt{2} (\\approx 7.17)"]);
    all("\\frac7{12}", &["\\frac{7}{12} \\approx 58.3\\%"], &["\\frac{7}{12} \\approx 68.3\\%"]);
}

#[test]
fn orders_of_terms_and_names_of_constants_are_free() {
    all("\\sqrt{a^2+b^2+c^2}", &["\\sqrt{c^2+b^2+a^2}"], &["\\sqrt{c^2+b^2-a^2}", "\\sqrt{a^2+b^2+c}"]);
    all("\\sqrt{a^2+b^2+c^2+d^2+e}", &["\\sqrt{e+d^2+c^2+b^2+a^2}"], &["\\sqrt{d+e^2+c^2+b^2+a^2}"]);
    all("x^2 + C", &["x^2+c", "k + x^2"], &["x^2", "x^2 + 2c", "cx^2", "x^2 - x"]);
    all("120", &["C_{10}^3", "C^{3}_{10}"], &["C_{10}^4", "C_3^{10}"]);
    all(
        "x \\equiv 7 \\pmod{12}",
        &["x \\equiv 19 \\pmod{12}", "x ≡ 7 (mod 12)", "x \\equiv 7 \\mod 12"],
        &["x \\equiv 5 \\pmod{12}", "x \\equiv 7 \\pmod{13}", "y \\equiv 7 \\pmod{12}"],
    );
}

#[test]
fn notations_of_bases_and_matrices() {
    all("725_8", &["725_{\\text{base }8}", "725 \\text{ base } 8", "0o725"], &["0o726", "0x725", "725 base 9"]);
    all("0", &[], &["0xFF", "0b11", "0o7"]);
    all("FF_{16}", &["0xff", "FF_{16}"], &["0xFE"]);
    all(
        "\\begin{pmatrix} 1&2\\\\3&4 \\end{pmatrix}",
        &[
            "[[1,2],[3,4]]",
            "\\begin{pmatrix}1&2\\cr 3&4\\end{pmatrix}",
            "\\begin{pmatrix}1&2\\\\\\hline 3&4\\end{pmatrix}",
        ],
        &["[[1,3],[2,4]]", "[[1,2,3,4]]"],
    );
    all("\\begin{pmatrix} 3\\\\-1 \\end{pmatrix}", &["(3,-1)^T", "[3, -1]^{\\top}"], &["(-1,3)^T", "(3,-1)^2"]);
}

#[test]
fn signs_and_formatting_around_a_number() {
    all("-8", &["{-}8", "\\text{minus } 8", "\\text{negative } 8"], &["8", "{+}8"]);
    all(
        "8",
        &["{}8", "8{}", "{\\Huge 8}", "8 \\checkmark", "\\to 8", "\\#8", "`8`", "'8'", "8 \\qed"],
        &["{-}8", "8''"],
    );
    all("24", &["USD 24", "US\\$24", "24 USD"], &["USD 25"]);
    all("\\frac{17}{5}", &["\\nicefrac{17}{5}", "\\sfrac{17}{5}"], &["\\nicefrac{5}{17}"]);
    all("4.7 \\times 10^6", &["4.7\\mathrm{e}6", "4.7\\text{E}6"], &["4.7\\mathrm{e}5"]);
    all("Rosa", &["\"Rosa\"", "**Rosa**"], &["Rose"]);
    all("\\text{parabola}", &["\\text{a parabola}"], &["\\text{an ellipse}"]);
}

#[test]
fn inverse_hyperbolic_functions_and_angles_have_several_names() {
    all(
        "\\ln\\left(x+\\sqrt{x^2+1}\\right)",
        &["\\operatorname{arsinh}(x)", "\\operatorname{arcsinh} x", "\\sinh^{-1} x", "asinh(x)"],
        &["\\operatorname{arcosh}(x)", "\\operatorname{artanh}(x)", "\\sinh x"],
    );
    all("30", &["\\ang{30}", "30^\\circ"], &["\\ang{31}"]);
}

#[test]
fn amounts_are_no_shares_and_sets_no_lists_of_sets() {
    all("\\$5", &["5", "\\$5.00"], &["5\\%"]);
    all("30^\\circ", &["30"], &["30\\%"]);
    all("60 \\text{ km}", &["60"], &["60\\%"]);
    all("\\{1,2\\}", &["1, 2", "\\{2, 1\\}"], &["\\{1\\}, \\{2\\}", "\\{\\{1,2\\}\\}"]);
    all("B", &["\\text{Answer: } B", "(B)"], &["A: B", "\\text{(B) is incorrect}", "\\text{(B) is wrong}"]);
}

#[test]
fn thinking_has_several_tags() {
    completions(
        "42",
        &Rules::default(),
        &[
            "<thinking>\\boxed{41}</thinking>\\boxed{42}",
            "<reasoning>\\boxed{41}</reasoning><answer>42</answer>",
            "Answer: 42<end_of_turn>",
        ],
        &[
            "<thinking>\\boxed{42}</thinking>",
            "<reasoning>\\boxed{42}",
            "<thought>\\boxed{42}</thought> I do not know.",
        ],
    );
}

#[test]
fn titles_of_sections_are_no_answers() {
    completions("17", &Rules::default(), &["#### 17\nThat is all.", "#### Final Answer\n\n**17**"], &[]);
    completions(
        "1",
        &Rules::default(),
        &[],
        &["#### 1 Introduction\nSo it begins.\nAnswer: 17", "#### (1)\nAnswer: 17"],
    );
}

#[test]
fn a_part_of_the_answer_that_stands_in_the_task_is_a_copy() {
    let rules = Rules::default();
    let judged = |gold: &str, answer: &str, prompt: &str| {
        Gold::read(gold, &rules).map(|gold| gold.check_for(Some(prompt), CheckInput::Extracted(answer), &rules).reason)
    };
    let prompt = "Compute $\\dbinom{31}{28}$.";
    for answer in ["\\max(\\binom{31}{28}, 0)", "\\left|\\binom{31}{28}\\right|", "\\lfloor\\binom{31}{28}\\rfloor"] {
        assert_eq!(judged("4495", answer, prompt), Ok(Reason::Copied), "{answer}");
    }
    assert_eq!(judged("x=5", "2x+1=11", "Solve $2x+1=11$."), Ok(Reason::Copied));
    for (gold, answer, prompt) in [
        ("4495", "4495", prompt),
        ("4495", "\\binom{31}{3}", prompt),
        ("113", "m+n=113", "Find $m+n$."),
        ("x=5", "x=5", "Is $x=5$ a solution of $2x+1=11$?"),
    ] {
        let reason = judged(gold, answer, prompt);
        assert!(reason.as_ref().is_ok_and(|reason| reason.outcome() == CheckOutcome::Equal), "{answer}: {reason:?}");
    }
}
