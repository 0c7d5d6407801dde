//! Non-ASCII content of a box: every spelling of a number is read like the ASCII one, or rejected with a reason of its
//! own.

use evenkeel_math::{BadGold, CheckInput, CheckOutcome, Gold, Profile, Reason, Rules, check};

/// The verdict on a boxed answer, which must be the same for the bare answer and with the markers of other rules.
fn boxed(gold: &str, answer: &str) -> Reason {
    let rules = Rules::default();
    let alone = check(gold, CheckInput::Extracted(answer), &rules).reason;
    for completion in [
        format!("\\boxed{{{answer}}}"),
        format!("So √25 = \\boxed{{{answer}}}"),
        format!("所以，x=\\fbox{{{answer}}}。"),
        format!("Thus\nAnswer: {answer}"),
        format!("Thus\n#### {answer}\n"),
    ] {
        assert_eq!(check(gold, CheckInput::Completion(&completion), &rules).reason, alone, "{completion}");
    }
    alone
}

fn is_equal(gold: &str, answer: &str) -> bool {
    boxed(gold, answer).outcome() == CheckOutcome::Equal
}

#[test]
fn ordinary_completions_have_the_verdict_of_their_box() {
    for (gold, completion) in [
        ("5", "So √25 = \\boxed{5}"),
        ("3", "所以，x=\\boxed{3}"),
        ("\\frac12", "sin 30° = \\boxed{\\frac12}"),
        ("2", "\\boxed{1} 所以，é=\\boxed{2}"),
        ("7", "因此 aₙ＝\\boxed{7}。"),
        ("-3", "Ответ: é = \\boxed{−3}"),
        ("12", "الجواب=\\boxed{12}"),
        ("4", "🎉=\\boxed{4}"),
        ("6", "x̄=\\boxed{6}, wie verlangt"),
        ("8", "\u{200b}=\\boxed{8}"),
        ("9", "よって、求める値は＝\\boxed{9}です。"),
        ("1", "𝑥=\\boxed{1}"),
        ("10", "कुल=\\boxed{10}"),
    ] {
        for profile in Profile::ALL {
            let verdict = check(gold, CheckInput::Completion(completion), &profile.rules());
            assert!(verdict.is_equal(), "{completion}: {}", verdict.reason);
        }
    }
}

#[test]
fn cut_commands_are_wrong_answers() {
    for answer in [
        "\\sum_",
        "\\prod_",
        "\\sum",
        "\\sum_{",
        "\\sum_{k}",
        "\\binom{0}{0}",
        "\\binom",
        "\\frac",
        "\\sqrt[",
        "\\log_",
        "\\hat",
        "\\left",
        "\\",
    ] {
        for completion in
            [format!("\\boxed{{{answer}}}"), format!("\\boxed{{{answer} }} ."), format!("√ \\boxed{{x {answer}}}")]
        {
            let verdict = check("5", CheckInput::Completion(&completion), &Rules::default());
            let outcome = verdict.outcome();
            assert!(
                matches!(outcome, CheckOutcome::NotEqual | CheckOutcome::NoAnswer | CheckOutcome::Undecided),
                "{completion}: {}",
                verdict.reason
            );
        }
    }
    assert!(check("1", CheckInput::Completion("\\boxed{\\binom{0}{0}}"), &Rules::default()).is_equal());
}

#[test]
fn forms_of_the_ten_digits_are_these() {
    for answer in
        ["１２３", "𝟏𝟐𝟑", "𝟙𝟚𝟛", "𝟷𝟸𝟹", "🯱🯲🯳", "1２𝟑", "１２３．０", "＋１２３", "２４６／２", "\\boxed１２３"]
    {
        assert!(is_equal("123", answer), "{answer}");
    }
    assert!(is_equal("1234", "１，２３４"));
    assert!(is_equal("0.5", "５０％"));
}

#[test]
fn every_sign_of_minus_is_one() {
    for minus in ["-", "−", "–", "‐", "‑", "‒", "—", "－", "﹣", "﹘", "➖", "- ", "− "] {
        for gold in ["-5", "-\\frac{5}{1}", "-5.0", "−5"] {
            assert!(is_equal(gold, &format!("{minus}5")), "{minus}");
        }
        assert!(is_equal("-1/2", &format!("{minus}½")), "{minus}");
        assert!(is_equal("-2.74", &format!("{minus}2,74")), "{minus}");
        assert!(is_equal("3", &format!("8 {minus} 5")), "{minus}");
        assert!(!is_equal("5", &format!("{minus}5")), "{minus}");
    }
}

#[test]
fn fractions_of_one_character_are_fractions() {
    for (answer, gold) in [
        ("½", "1/2"),
        ("⅓", "1/3"),
        ("⅔", "\\frac23"),
        ("¼", "0.25"),
        ("¾", "\\dfrac{3}{4}"),
        ("⅕", "20\\%"),
        ("⅖", "2/5"),
        ("⅗", "3/5"),
        ("⅘", "4/5"),
        ("⅙", "1/6"),
        ("⅚", "5/6"),
        ("⅐", "1/7"),
        ("⅛", "1/8"),
        ("⅜", "3/8"),
        ("⅝", "5/8"),
        ("⅞", "7/8"),
        ("⅑", "1/9"),
        ("⅒", "1/10"),
        ("↉", "0"),
        ("⅟3", "1/3"),
        ("2½", "5/2"),
        ("2 ½", "5/2"),
        ("２½", "2.5"),
        ("−2½", "-5/2"),
        ("1⁄2", "1/2"),
        ("¹⁄₂", "1/2"),
        ("2¹⁄₂", "5/2"),
        ("¹²⁄₂₅", "12/25"),
        ("1∕2", "1/2"),
        ("１／２", "1/2"),
        ("½π", "\\frac{\\pi}{2}"),
        ("x²", "x^2"),
        ("2³", "8"),
        ("2⁻¹", "1/2"),
        ("√2⁄2", "\\frac{\\sqrt2}{2}"),
    ] {
        assert!(is_equal(gold, answer), "{answer} is {gold}: {}", boxed(gold, answer));
        assert!(is_equal(answer, gold), "{gold} is {answer}");
    }
    assert!(!is_equal("1/2", "⅓") && !is_equal("1", "2½") && !is_equal("21/2", "2½"));
}

#[test]
fn separators_of_other_keyboards_are_those_of_this_one() {
    for (answer, gold) in [
        ("1、2", "1, 2"),
        ("（1，2）", "(1, 2)"),
        ("x＝5", "x = 5"),
        ("1∶2", "1:2"),
        ("5。", "5"),
        ("｛1；2｝", "\\{1, 2\\}"),
    ] {
        // Braces of full width are groups, as plain ones are.
        assert!(is_equal(gold, answer), "{answer} is {gold}: {}", boxed(gold, answer));
    }
}

/// Zero and four of unsupported digits.
const FOREIGN: [(char, char); 12] = [
    ('٠', '٤'),
    ('۰', '۴'),
    ('०', '४'),
    ('০', '৪'),
    ('੦', '੪'),
    ('௦', '௪'),
    ('๐', '๔'),
    ('༠', '༤'),
    ('၀', '၄'),
    ('០', '៤'),
    ('᠐', '᠔'),
    ('𞥐', '𞥔'),
];

#[test]
fn digits_of_other_scripts_are_unreadable_by_name() {
    for (zero, four) in FOREIGN {
        for answer in [
            format!("{four}"),
            format!("{four}{zero}"),
            format!("4{zero}"),
            format!("x = {four}"),
            format!("\\frac{{{four}}}{{1}}"),
            format!("\\text{{{four} cm}}"),
            format!("−{four}"),
            format!("({four}, 1)"),
        ] {
            for gold in ["4", "40", "x", "\\frac{4}{1}", "(4, 1)"] {
                assert_eq!(boxed(gold, &answer), Reason::UnreadableDigits, "{answer}");
            }
            let read = Gold::read(&answer, &Rules::default());
            assert!(
                matches!(read, Err(BadGold::UnreadableDigit(digit)) if digit == zero || digit == four),
                "{answer}: {read:?}"
            );
        }
    }
    let bad = Gold::read("٤", &Rules::default()).unwrap_err();
    assert_eq!(
        bad.to_string(),
        "the gold answer contains U+0664, a digit of another script or a combining mark on a digit"
    );
    assert_eq!(bad.reason().code(), "gold_unreadable_digits");
}

#[test]
fn marked_digits_are_unreadable_by_name() {
    for answer in ["4️⃣", "4\u{20e3}", "5\u{336}", "1\u{20dd}2", "3\u{301}", "7\u{fe0f}", "５\u{305}"] {
        assert_eq!(boxed("4", answer), Reason::UnreadableDigits, "{answer}");
    }
    // Marks on letters form names.
    assert_ne!(boxed("x\u{304}", "x\u{304}"), Reason::UnreadableDigits);
    assert!(is_equal("x\u{304}", "x\u{304}"));
}

#[test]
fn a_number_without_braces_is_read_or_named_in_every_spelling() {
    let bare = |gold: &str, number: &str| {
        let completion = format!("Also √25 = \\boxed {number}, 所以");
        check(gold, CheckInput::Completion(&completion), &Rules::default()).reason
    };
    for (gold, number) in
        [("5", "５"), ("-5", "−5"), ("-5", "－５"), ("1/2", "½"), ("5/2", "2½"), ("1/2", "1⁄2"), ("3", "𝟑")]
    {
        assert_eq!(bare(gold, number).outcome(), CheckOutcome::Equal, "{number}");
    }
    for number in ["٣", "३", "3٣", "−٣"] {
        assert_eq!(bare("3", number), Reason::UnreadableDigits, "{number}");
    }
}

#[test]
fn no_nesting_takes_more_than_a_small_stack() {
    let nests = [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{", "1", "}"),
        ("\\{", "1", "\\}"),
        ("(1,", "2", ")"),
        ("\\{(", "1", ")\\}"),
        ("\\frac{1}{", "2", "}"),
        ("\\sqrt{", "2", "}"),
        ("\\begin{matrix}", "1", "\\end{matrix}"),
        ("\\begin{cases}", "x=1", "\\end{cases}"),
        ("[1,2]\\cup(", "[3,4]", ")"),
        ("\\{x:", "x>1", "\\}"),
        ("\\text{", "a", "}"),
        ("|", "x", "|"),
        ("2^{", "2", "}"),
        ("\\sum_{k=1}^{2}(", "k", ")"),
        ("f(", "x", ")"),
        ("x=(", "1", ")"),
        ("1:(", "2", ")"),
        ("(x \\in ", "[1,2]", ")"),
        ("-", "1", ""),
        ("\\boxed{", "1", "}"),
    ];
    let judged = std::thread::Builder::new().stack_size(512 << 10).spawn(move || {
        for (open, inner, close) in nests {
            for depth in [1, 2, 8, 23, 24, 25, 31, 32, 33, 100, 255, 256, 257, 5000] {
                let text = [open.repeat(depth).as_str(), inner, &close.repeat(depth)].concat();
                for other in ["1", &text] {
                    let verdict = check(&text, CheckInput::Extracted(other), &Rules::default());
                    let _ = (verdict.canonical(), format!("{verdict:?}"));
                }
            }
        }
    });
    judged.unwrap().join().unwrap();
}
