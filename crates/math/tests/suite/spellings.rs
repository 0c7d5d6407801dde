//! Answers as people write them, kind by kind: what is recognised, and what is near it and must not be rewarded.

use crate::judged::{all, completions};
use evenkeel_math::Profile;

#[test]
fn a_comma_is_read_one_way() {
    all("10,000", &["10000", "10{,}000", "10\\,000", "10\\;000", "10 000"], &["10.0", "10", "10.000", "10.00"]);
    all("1,234", &["1234", "1\\;234", "1{,}234", "1_234", "1'234", "1\\,234"], &["1.234", "1.2340"]);
    all("10.0", &["10", "10,0"], &["10,000", "10{,}000", "100"]);
    all(
        "1234567",
        &["1\\;234\\;567", "1,234,567", "1_234_567", "1'234'567", "1\\:234\\:567", "1~234~567"],
        &["1.234567"],
    );
}

#[test]
fn a_function_of_a_number_is_no_product() {
    for name in ["f", "g", "h", "F", "V", "P", "T", "x", "a", "s"] {
        let gold = format!("{name}\\left(2\\right)=6");
        all(
            &gold,
            &[
                &format!("{name}(2)=6"),
                &format!("{name} (2) = 6"),
                &format!("{name}\\left( 2 \\right) = \\frac{{12}}{{2}}"),
            ],
            &[
                &format!("{name}\\left(1\\right)=3"),
                &format!("{name}(1)=3"),
                &format!("{name} (1) = 3"),
                &format!("{name}\\!\\left(4\\right)=12"),
                &format!("{name}\\left(-2\\right)=-6"),
            ],
        );
    }
    all("2x+6", &["2(x+3)", "2 (x+3)", "2\\left(x+3\\right)"], &["2(x)+3"]);
}

#[test]
fn pieces_that_meet_far_away_are_no_identities() {
    for other in [
        "\\min(x,10^3)",
        "\\min(x, 10^7)",
        "\\min(x, 2^{20})",
        "\\min(x, 10!)",
        "\\max(x, -10^6)",
        "\\min(x, 10^{100})",
        "\\frac{|x+10^5|+x-10^5}{2}",
        "\\min(x, 1000\\cdot 1000)",
        "\\min(x, 30^4)",
        "|x + 10^9| - 10^9",
        "\\min(x, e^{12})",
    ] {
        all("x", &[], &[other]);
    }
    all("|x-10^6|", &["|10^6-x|", "\\max(x-10^6, 10^6-x)"], &["x-10^6"]);
}

#[test]
fn decimals_are_rounded_and_not_cut() {
    all("0.25", &["1/4", "0.250", ".25"], &["0.259", "0.254", "0.245", "0.2501", "0.26", "\\frac{26}{103}"]);
    all("\\frac23", &["0.667", "0.6667", "0.66667"], &["0.666", "0.6666", "0.66666", "0.67", "0.668"]);
    all("0.67", &["2/3", "0.6667"], &["0.679", "0.678", "0.664"]);
    all("12.57", &["4\\pi", "12.566"], &["12.579", "12.58"]);
    all("40\\pi", &["125.664", "125.66371"], &["125.663", "125.66", "125.6"]);
    all("18.50", &["18.5", "\\frac{37}{2}"], &["18.504", "18.496"]);
    all("50", &["50%", "50\\%"], &["0.5"]);
    all("\\frac12", &["50\\%", "0.5"], &["\\frac12\\%", "0.5\\%", ".5\\%"]);
}

#[test]
fn inequalities_that_all_hold_are_an_intersection() {
    for answer in [
        "x>2, x<5",
        "x>2 \\text{ and } x<5",
        "x<5 \\land x>2",
        "x > 2 and x < 5",
        "\\begin{cases}x>2\\\\x<5\\end{cases}",
        "5 > x, x > 2",
        "2 < x < 5",
        "\\{x \\mid x>2, x<5\\}",
        "x \\in (2, 5)",
        "x>2; x<5",
        "x \\in (2,\\infty), x<5",
        "|x-3.5|<1.5",
        "|2x-7| < 3",
    ] {
        all("(2,5)", &[answer], &[]);
        all("\\mathbb{R}", &[], &[answer]);
    }
    all(
        "\\mathbb{R}\\setminus\\{2,3\\}",
        &["x \\ne 2, 3", "x\\ne2, x\\ne3", "x \\neq 2 \\text{ and } x \\neq 3", "x\\ne 2 \\text{ or } 3"],
        &["x \\ne 2"],
    );
    all("(-\\infty,1)\\cup(2,\\infty)", &["x<1 \\text{ or } x>2", "x<1, x>2", "x > 2 or x < 1"], &["x<1", "x>1, x<2"]);
    all(
        "(0,\\infty)",
        &["\\mathbb{R}^+", "\\mathbb{R}_{>0}", "\\mathbb{R}_+", "x > 0"],
        &["\\mathbb{R}_{\\ge 0}", "\\mathbb{R}^-", "\\mathbb{R}"],
    );
}

#[test]
fn words_after_a_number_are_units_unless_they_change_it() {
    for noun in [
        "apples",
        "books",
        "pages",
        "square units",
        "cubic units",
        "cups",
        "pieces of candy",
        "acres",
        "nickels",
        "students",
        "different ways",
        "minutes",
        "triangles",
        "books left",
        "\\text{ eggs}",
        "\\text{ min}",
        "\\,\\mathrm{min}",
        "m/s",
        "mph",
        "s",
        "\\text{ days}",
        "个",
        "平方厘米",
    ] {
        all("36", &[&format!("36 {noun}")], &[]);
        all("35", &[], &[&format!("36 {noun}")]);
    }
    for word in [
        "tens",
        "thirds",
        "dozen",
        "thousand",
        "million",
        "hundred dollars",
        "squared",
        "or more",
        "or less",
        "negative",
        "factorial",
        "minus one",
        "bn",
        "mil",
        "crore",
        "万",
        "亿",
        "percent of 7",
        "halves",
    ] {
        all("3", &[], &[&format!("3 \\text{{ {word}}}"), &format!("3 {word}")]);
    }
    all("36", &[], &["36 times", "36 quarters", "36 rejected", "36 wombats", "36 men or so"]);
    all("\\frac34", &["3 \\text{ quarters}", "3\\text{ fourths}"], &["3", "3 \\text{ times}"]);
    all("3", &[], &["3 \\text{ quarters}", "3 quarters", "three 3", "3x", "3 x", "3xy"]);
    all("5\\text{ cm}", &["5 cm", "5\\text{ centimeters}"], &["5\\text{ m}", "5 m", "5 cm^2", "5 hours"]);
}

#[test]
fn words_around_an_answer_are_no_part_of_it() {
    for answer in [
        "\\text{The answer is } 42",
        "\\text{Answer: }42",
        "42 \\text{ is the answer}",
        "\\text{Number of ways: } 42",
        "Total: 42",
        "42 \\text{ (final answer)}",
        "42 \\qquad \\text{(since }x>0)",
        "The answer is 42.",
        "There are 42 apples.",
        "She has $42 left",
        "\"42\"",
        "**42**",
        "\\textbf{Answer: 42}",
        "42 (approx.)",
        "x = 42",
        "P(X=3)=42",
        "\\lim_{x\\to0} f(x) = 42",
    ] {
        all(
            "42",
            &[answer],
            &[
                "\\text{The answer is not } 42",
                "not 42",
                "42 (wrong)",
                "42 or 43",
                "at least 42",
                "\\text{less than } 42",
                "half of 42",
            ],
        );
    }
}

#[test]
fn formatting_shows_the_same_number() {
    for answer in [
        "\\underline{42}",
        "\\phantom{0}42",
        "\\color{blue}42",
        "\\color{red}{42}",
        "\\textcolor{blue}{42}",
        "\\colorbox{yellow}{42}",
        "\\hspace{1cm}42",
        "\\pmb{42}",
        "\\boldsymbol{42}",
        "\\ensuremath{42}",
        "\\color[rgb]{1,0,0}{42}",
        "\\displaystyle 42",
        "42\\tag{1}",
    ] {
        all("42", &[answer], &[]);
        all("2", &[], &[answer]);
    }
    all(
        "\\begin{pmatrix}1\\\\2\\end{pmatrix}",
        &[
            "\\begin{pmatrix}1\\\\[6pt]2\\end{pmatrix}",
            "\\begin{bmatrix}1\\\\[0.5em] 2\\end{bmatrix}",
            "\\begin{pmatrix}1\\\\*[2mm]2\\end{pmatrix}",
        ],
        &["\\begin{pmatrix}2\\\\[6pt]1\\end{pmatrix}"],
    );
    all("6", &[], &["2{3}"]);
    all("0", &[], &["1{00}"]);
}

#[test]
fn repeating_decimals_are_fractions() {
    all(
        "\\frac23",
        &[
            "0.\\overline{6}",
            "0.\\bar{6}",
            "0.\\dot{6}",
            "0.(6)",
            "0.666...",
            "0.66\\ldots",
            "0.6666\\dots",
            ".\\overline{6}",
            "0.\\overline 6",
            "0.6\\overline{6}",
            "0.6(6)",
            "66.\\overline{6}\\%",
        ],
        &["0.\\overline{67}", "0.6", "0.\\overline{5}"],
    );
    all(
        "\\frac16",
        &["0.1\\overline{6}", "0.1\\dot{6}", "0.1(6)", "0.1666..."],
        &["0.\\overline{16}", "0.1\\overline{5}"],
    );
    all(
        "0.\\overline{27}",
        &["3/11", "0.\\overline{2727}", "0.27\\overline{27}", "0.\\dot{2}\\dot{7}", "0.272727..."],
        &["0.27", "27/100"],
    );
    all("1", &["0.\\overline{9}", "0.999..."], &["0.999"]);
    all("\\frac{22}{7}", &["3.\\overline{142857}"], &["3.14"]);
}

#[test]
fn an_approximation_after_the_exact_value_must_be_true() {
    all(
        "25\\pi",
        &[
            "25\\pi \\approx 78.54",
            "25\\pi \\approx 78.5",
            "25\\pi\\text{ cm}^2 \\approx 78.54\\text{ cm}^2",
            "A = 25\\pi \\approx 78.54",
            "25\\pi \\approx 79",
        ],
        &["25\\pi \\approx 81.68", "24\\pi \\approx 75.4", "78.54 \\approx 24\\pi"],
    );
    all(
        "2\\sqrt3",
        &["2\\sqrt3\\approx3.4641", "\\sqrt{12} \\approx 3.46", "2\\sqrt3 \\text{ (about 3.46)}"],
        &["2\\sqrt3 \\approx 4.46"],
    );
    all("\\frac34", &["\\frac34 \\text{ or } 0.75", "\\frac{3}{4} = 75\\%"], &["\\frac34 \\text{ or } 0.76"]);
}

#[test]
fn magnitudes_bases_degrees_and_times_signs() {
    all(
        "1500000",
        &[
            "1.5 million",
            "1.5\\text{ million}",
            "1500 thousand",
            "1.5 \\times 10^6",
            "1.5x10^6",
            "1.5 x 10^6",
            "1.5 \\text{ x } 10^6",
            "1.5 X 10^{6}",
        ],
        &["1.5 billion", "1.5"],
    );
    all("2A_{16}", &["2a_{16}", "2A_{16}"], &["2B_{16}", "2A_{15}"]);
    all("AB_{16}", &["ab_{16}"], &["BA_{16}"]);
    all("4E_{16}", &["4E", "4e_{16}"], &["4F"]);
    all("-60^\\circ", &["-60", "-60^{\\circ}", "-60°", "-60º"], &["60", "-61^\\circ"]);
    all(
        "120",
        &["180^\\circ-60^\\circ", "120{}^\\circ", "120 \\text{ degrees}", "x = 120^\\circ"],
        &["180^\\circ - 61^\\circ"],
    );
    all("5", &["5^\\circ C", "5^\\circ F", "5^{\\circ}C", "5°C", "5\\text{ }^\\circ\\text{C}"], &["6^\\circ C"]);
    all("x_1+2", &["x _1 + 2", "2 + x_{1}", "x _{1}+2"], &["x_2+2"]);
}

#[test]
fn choices_have_letters_and_texts() {
    all(
        "B",
        &["(B)", "B. 42", "B 42", "Option B", "option (B)", "Choice: B", "B) 42", "\\textbf{(B)}\\ 42"],
        &["A", "A or B", "A, B", "B or C"],
    );
    all("C", &["C. Both A and B", "(C) None of the above", "C"], &["Both A and B", "B. Both A and C"]);
    all("\\textbf{(C)}\\ 17", &["C", "(C)", "17", "(C) 17", "\\text{(C) } 17", "C. 17"], &["D", "18", "(D) 17"]);
    all("14", &["\\text{(C) } 14", "C. 14", "(C) 14"], &["(C) 15", "C"]);
    all(
        "ABD",
        &["A, B, D", "A;B;D", "\\text{A, B, D}", "D, B, A", "A,B,D", "(A), (B), (D)"],
        &["A, B", "A, B, C, D", "A, C, D"],
    );
    all("A", &[], &["A lot", "A/B", "A B", "A (but maybe B)", "A and B"]);
}

#[test]
fn answers_are_announced_in_many_ways() {
    completions(
        "42",
        &Profile::Default.rules(),
        &[
            "The answer is 42.",
            "the answer is: **42**",
            "Final answer = 42",
            "The final answer would be 42.",
            "### Final Answer\n\n**42**",
            "<answer>42</answer>",
            "<think>a</think>\n<answer>The answer is 42.</answer>",
            "答案：42",
            "so it is #### 42",
            "#### Final Answer: 42",
            "#### Answer\n$$42$$",
            "Answer: 42\n\n#### Verification\n40+2=42, ok.",
            "Answer: There are 42 apples.",
            "The final answer is **42 apples**.",
            "The final answer is 42; the other root is rejected.",
            "Answer: 42<|im_end|>",
            "The answer is \\(42\\).",
            "<answer>$42$</answer>\n</s>",
        ],
        &[
            "#### 42. Setup\nThen 43.",
            "The answer is not 42.",
            "<answer>42",
            "<think>The answer is 42.",
            "I can mention 42 anywhere.",
            "The answer is 42 or 43.",
            "Answer: 42\nAnswer: 43",
            "#### 42)\nMore.",
            "The answer is at most 42.",
        ],
    );
    completions(
        "D",
        &Profile::Default.rules(),
        &["We get \\boxed{42} meters.\n\nAnswer: D", "The correct option is D."],
        &["\\boxed{A}\n\nAnswer: D", "Answer: C"],
    );
    completions(
        "-3",
        &Profile::Unmarked.rules(),
        &["So it is -3.", "So it is −3.", "It is equal to - 3.", "thus = -3"],
        &["So it is 3.", "So 7 - 3."],
    );
    completions(
        "3",
        &Profile::Unmarked.rules(),
        &["So it is 3."],
        &["So it is -3.", "So it is −3.", "It is - 3.", "the ratio 2:3."],
    );
}
