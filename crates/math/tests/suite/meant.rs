//! What looks like a value and is a name, a part, or another value: dashes, cut decimals, products with an order,
//! alternatives, letters that are functions, what is struck out, rates.

use evenkeel_math::{CheckInput, Gold, Profile, Reason, Rules, check};

use crate::judged::{all, completions};

/// Whether an answer to a problem is right.
fn judged(problem: &str, gold: &str, answer: &str) -> Reason {
    let rules = Rules::default();
    Gold::read(gold, &rules).unwrap().check_for(Some(problem), CheckInput::Extracted(answer), &rules).reason
}

#[test]
fn numbers_that_dashes_join_are_names_and_no_differences() {
    all(
        "-120",
        &["30 - 60 - 90", "30 - 150"],
        &[
            "30-60-90",
            "30–60–90",
            "(30-60-90)",
            "\\text{30-60-90}",
            "30-60-90 triangle",
            "30^\\circ-60^\\circ-90^\\circ",
        ],
    );
    all("-2", &["4 - 4 - 2"], &["4-4-2", "x = 4-4-2", "\\text{formation} = 4-4-2"]);
    all("5", &["10 - 3 - 2", "x = 10 - 3 - 2 = 5"], &["10-3-2", "x = 10-3-2"]);
    all(
        "2",
        &["3 - 1", "x = 3-1 = 2"],
        &["3-1", "3–1", "(3-1)", "3{-}1", "\\text{3-1}", "x=3-1", "3-1 goals", "3-1-0"],
    );
    all(
        "-10",
        &["10 - 20", "\\$10 - \\$20"],
        &[
            "10-20",
            "10 - 20 cm",
            "10-20\\text{ apples}",
            "\\$10-20",
            "\\$10-\\$20",
            "[10-20]",
            "10-20, 20-30",
            "1990-2000",
        ],
    );
    all("-1", &["2^0 - 2", "\\frac12-\\frac32"], &["1.5-2.5", "1.5–2.5 m", "1-2 hours", "1/2-3/2"]);
    all("10-20", &["10-20", "10–20"], &["10-30", "20-10"]);
    all("4-4-2", &["4-4-2", "4–4–2"], &["-2", "4-2-4"]);
    all("120", &["180^\\circ-60^\\circ", "180^\\circ - 60^\\circ"], &[]);
    // A sign of its own, a power or a letter makes it a computation.
    all("1023", &["2^{10}-1"], &[]);
    all("-5", &["-3-2", "-(3+2)"], &[]);
    all("n-1", &["-1+n", "n - 1"], &["n+1"]);
    let unknown = check("-120", CheckInput::Extracted("30-60-90"), &Rules::default());
    assert_eq!(unknown.reason, Reason::NotUnderstood);
}

#[test]
fn a_cut_decimal_is_no_exact_one() {
    all(
        "0.5",
        &["0.50", "0.5."],
        &["0.5...", "0.5\\ldots", "0.5…", "0.5..", "x=0.5...", ".5...", "The answer is 0.5..."],
    );
    all("5", &["5."], &["5...", "5\\ldots"]);
    all("0.3", &[], &["0.3..."]);
    all("12", &[], &["12, ...", "12, \\ldots"]);
    all("\\frac13", &["0.333...", "0.33\\ldots"], &["0.3..."]);
    all("\\frac59", &["0.555..."], &["0.55"]);
    completions(
        "0.5",
        &Rules::default(),
        &["\\boxed{0.5}.", "The answer is 0.5."],
        &["\\boxed{0.5}...", "$\\boxed{0.5}\\ldots$", "The answer is 0.5...", "The answer is $0.5\\ldots$"],
    );
    completions("7", &Rules::default(), &["It is \\boxed{7}... as expected."], &["$\\boxed{7}\\ldots$"]);
    completions("0.5", &Profile::Unmarked.rules(), &["so it is 0.5."], &["so it is 0.5..."]);
}

#[test]
fn products_of_matrices_have_an_order() {
    all(
        "\\bm{A}\\bm{B}+\\bm{C}",
        &["\\bm{C}+\\bm{A}\\bm{B}", "\\mathbf{C}+\\mathbf{AB}", "AB+C"],
        &["\\bm{C}+\\bm{B}\\bm{A}", "BA+C"],
    );
    all(
        "\\mathbf{A}^{-1}\\mathbf{B}",
        &["\\mathbf{A}^{-1}\\mathbf{B}", "A^{-1}B"],
        &["\\mathbf{B}\\mathbf{A}^{-1}", "BA^{-1}", "\\mathbf{A}\\mathbf{B}^{-1}"],
    );
    all(
        "(\\mathbf A+\\mathbf B)^2",
        &["\\mathbf A^2+\\mathbf A\\mathbf B+\\mathbf B\\mathbf A+\\mathbf B^2"],
        &["\\mathbf A^2+2\\mathbf A\\mathbf B+\\mathbf B^2"],
    );
    all("\\mathbf{P}\\mathbf{D}\\mathbf{P}^{-1}", &[], &["\\mathbf{D}", "\\mathbf{P}^{-1}\\mathbf{D}\\mathbf{P}"]);
    all("0", &["\\mathbf{A}-\\mathbf{A}"], &["\\mathbf{A}\\mathbf{B}-\\mathbf{B}\\mathbf{A}"]);
    all("Y = \\mathbf{AB}", &["Y = \\mathbf{AB}"], &["Y = \\mathbf{BA}"]);
    all("A^TB", &["A^T B"], &["BA^T", "AB^T"]);
    all("X^TX", &[], &["XX^T"]);
    all("\\hat{x}\\hat{p}", &[], &["\\hat{p}\\hat{x}"]);
    // One matrix commutes with itself and with numbers, and a dot product has no order.
    all("2\\mathbf{A}+3\\mathbf{A}^2", &["\\mathbf{A}(2+3\\mathbf{A})"], &["\\mathbf{A}(2+3\\mathbf{A}^2)"]);
    all("m\\mathbf{a}", &["\\mathbf{a}m", "ma"], &["m\\mathbf{b}"]);
    all("2\\mathbf{a}+3\\mathbf{b}", &["3\\mathbf{b}+2\\mathbf{a}"], &["3\\mathbf{a}+2\\mathbf{b}"]);
    all("\\mathbf{u}\\cdot\\mathbf{v}", &["\\mathbf{v}\\cdot\\mathbf{u}"], &[]);
    all("\\mathbf{v}", &["v"], &["u"]);
    let diagonal = "\\begin{pmatrix}2&0\\\\0&3\\end{pmatrix}";
    all(
        diagonal,
        &["\\begin{bmatrix}2&0\\\\0&3\\end{bmatrix}"],
        &[&format!("P{diagonal}P^{{-1}}"), &format!("\\mathbf{{P}}{diagonal}\\mathbf{{P}}^{{-1}}")],
    );
    all("A\\begin{pmatrix}2\\\\3\\end{pmatrix}", &[], &["\\begin{pmatrix}2\\\\3\\end{pmatrix}A"]);
    all("k\\begin{pmatrix}2\\\\3\\end{pmatrix}", &["\\begin{pmatrix}2k\\\\3k\\end{pmatrix}"], &[]);
}

#[test]
fn alternatives_are_no_pair() {
    let vector = "\\begin{pmatrix}2\\\\3\\end{pmatrix}";
    all("(2,3)", &["2, 3", "2 and 3", "x=2, y=3"], &["2 or 3", "2 \\text{ or } 3", "2 \\lor 3", "(2 or 3)"]);
    all("(2,3,4)", &["2, 3, 4"], &["2, 3 or 4"]);
    all("x=2, y=3", &["2, 3"], &["2 or 3"]);
    all(vector, &["2, 3"], &["2 or 3"]);
    all("2 or 3", &["2, 3", "3 or 2", "\\{2, 3\\}"], &["(2,3)"]);
    all("\\{2,3\\}", &["2 or 3"], &[]);
    completions("(2,3)", &Rules::default(), &["\\boxed{2}, \\boxed{3}"], &["\\boxed{2} or \\boxed{3}"]);
    completions("2, 3", &Rules::default(), &["\\boxed{2} or \\boxed{3}"], &[]);
}

#[test]
fn a_letter_before_brackets_alone_is_a_function() {
    all("x(t-1)+x(t)", &["x(t)+x(t-1)"], &["x(2t-1)", "2xt-x"]);
    all("u(t-1)-u(t-2)", &["-u(t-2)+u(t-1)"], &["u", "u(t-2)-u(t-3)"]);
    all("y(2)-y(1)", &["-y(1)+y(2)"], &["y", "y(3)-y(2)"]);
    all("y(t)=e^t", &["e^t", "y=e^t", "y(s)=e^s"], &["y(t)=e^{2t}"]);
    all("x(t)y(t)", &["y(t)x(t)"], &["xyt^2"]);
    // A letter that stands elsewhere too is a factor.
    all("\\frac{n(n+1)}{2}", &["\\frac{n^2+n}{2}"], &["\\frac{n^2+1}{2}"]);
    all("a(b+c)", &["ab+ac"], &["ab+c"]);
    all("k(x+1)", &["kx+k"], &["kx+1"]);
    // And one that the gold answer has without brackets is a quantity, and no function.
    all("P-Pr", &["P(1-r)"], &["P(1+r)", "P(r)"]);
    all("(1+r)^tP", &["P(1+r)^t"], &["P(1-r)^t"]);
    all("F(2x)", &["F(x+x)"], &["2Fx"]);
    all("G(x+1)-G(x)", &["-G(x)+G(x+1)"], &["G"]);
    all("H(1-x)", &[], &["H-Hx"]);
}

#[test]
fn what_is_struck_out_is_no_answer() {
    all("B", &["B", "(B)"], &["~~B~~", "(~~B~~)", "\\sout{B}", "\\cancel{B}", "~~A~~ B"]);
    all("36", &["36~~\\text{cm}", "36~"], &["~~36~~", "\\cancel{36}", "<del>36</del>", "36 ~~(wrong)~~"]);
    completions(
        "36",
        &Rules::default(),
        &["<s>\\boxed{36}</s>", "The answer is ~~35~~ 36."],
        &[
            "So <s>\\boxed{36}</s>",
            "~~\\boxed{36}~~",
            "\\cancel{\\boxed{36}}",
            "<del>\\boxed{36}</del>",
            "Answer: ~~36~~",
        ],
    );
}

#[test]
fn a_rate_is_another_value_unless_the_problem_has_it() {
    let problem = "How many apples are in each box?";
    for answer in ["36 apples per box", "36 apples in each box", "The number of apples per box is 36", "36 apples each"]
    {
        assert_eq!(judged(problem, "36", answer), Reason::EqualInteger, "{answer}");
    }
    assert_eq!(judged(problem, "36", "36 apples per wombat"), Reason::NotUnderstood);
    all(
        "36",
        &["36 apples", "36 apples each", "36 apples in the box"],
        &[
            "36 apples per box",
            "36\\text{ apples per box}",
            "36 apples for each box",
            "36 apples in each box",
            "36 per box",
        ],
    );
    let gsm8k = Profile::Gsm8k.rules();
    assert!(!check("36", CheckInput::Extracted("36 apples per box"), &gsm8k).is_equal());
    assert!(check("36", CheckInput::Extracted("36 wombats"), &gsm8k).is_equal());
}
