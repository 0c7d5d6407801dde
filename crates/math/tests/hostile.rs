//! Answers made to be expensive: each is judged in bounded time (five milliseconds on an idle machine, with
//! `EVENKEEL_LONG`) and bounded memory, and none is rewarded.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel_math::{CheckInput, CheckOutcome, Profile, Rules, check};

/// Counts allocated bytes and their maximum.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// The counters are global, so that one test runs at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

// SAFETY: every call goes to the system's allocator as it came.
#[allow(unsafe_code, reason = "an allocator cannot be written without it; the crate itself forbids it")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps to the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps to the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MAX_HELD: usize = 64 << 20;

/// Longest check: 5 ms on a current idle machine (`EVENKEEL_LONG`). Elsewhere a generous limit that only detects
/// endless work: fuel, which bounds the work and decides verdicts, is the same everywhere.
fn max_time() -> Duration {
    Duration::from_millis(if std::env::var_os("EVENKEEL_LONG").is_some() { 5 } else { 2_000 })
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

fn tower(base: &str, height: usize) -> String {
    nested(&format!("{base}^{{"), base, "}", height)
}

fn sum(count: usize, term: impl Fn(usize) -> String) -> String {
    (0..count).map(term).collect::<Vec<_>>().join("+")
}

/// Hostile answers, each with a name.
fn answers() -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut add = |name: String, answer: String| rows.push((name, answer));
    for base in ["2", "9", "10", "2003", "1.0000001", "x", "\\pi", "e", "i", "(1+\\sqrt{2})", "\\frac{3}{2}", "-2"] {
        for height in [2, 3, 5, 60, 2000] {
            add(format!("tower of {height} of {base}"), tower(base, height));
        }
    }
    for exponent in
        ["10^{9}", "10^{18}", "10^{100}", "-10^{18}", "999999999999999999999999999999", "1/10^{18}", "\\sqrt{2}"]
    {
        for base in ["2", "1.5", "(x+1)", "\\sqrt{2}", "(1+i)", "0.999999999999"] {
            add(format!("{base} to the {exponent}"), format!("{base}^{{{exponent}}}"));
        }
    }
    for n in ["10^{9}", "10^{18}", "20000", "3000", "(((10!)!)!)", "x"] {
        add(format!("factorial of {n}"), format!("({n})!"));
        add(format!("double factorial of {n}"), format!("({n})!!"));
        add(format!("binomial of {n}"), format!("\\binom{{{n}}}{{{n}/2}}"));
        add(format!("sum to {n}"), format!("\\sum_{{k=1}}^{{{n}}} k^k"));
        add(format!("product to {n}"), format!("\\prod_{{k=1}}^{{{n}}} (k+\\sqrt{{k}})"));
        add(
            format!("sums of sums to {n}"),
            format!("\\sum_{{a=1}}^{{{n}}}\\sum_{{b=1}}^{{{n}}}\\sum_{{c=1}}^{{{n}}} a^{{bc}}"),
        );
    }
    for depth in [50, 200, 1000, 10_000] {
        add(format!("{depth} roots"), nested("\\sqrt{2+", "2", "}", depth));
        add(format!("continued fraction of {depth}"), nested("\\frac{1}{1+", "1", "}", depth));
        add(format!("continued fraction of roots of {depth}"), nested("\\frac{1}{1+\\sqrt{", "2", "}}", depth));
        add(format!("{depth} parentheses"), nested("(", "x", ")", depth));
        add(format!("{depth} braces around nothing"), nested("{", "", "}", depth));
        add(format!("{depth} sets"), nested("\\{", "1", "\\}", depth));
        add(format!("{depth} tuples"), nested("(1,", "2", ")", depth));
        add(format!("{depth} bars"), "|x".repeat(depth));
        add(format!("{depth} sines"), nested("\\sin(", "1", ")", depth));
        add(format!("{depth} sines without parentheses"), "\\sin ".repeat(depth) + "1");
        add(format!("{depth} logarithms"), nested("\\log_2(", "9", ")", depth));
        add(format!("{depth} exponentials"), nested("\\exp(", "1", ")", depth));
        add(format!("{depth} signs"), "-".repeat(depth) + "x");
        add(format!("{depth} factorials"), "4".to_owned() + &"!".repeat(depth));
        add(format!("{depth} matrices"), nested("\\begin{pmatrix}", "1", "\\end{pmatrix}", depth));
        add(format!("{depth} texts"), nested("\\text{", "a", "}", depth));
        add(format!("{depth} variables"), sum(depth, |n| format!("x_{{{n}}}")));
        add(format!("{depth} roots of sums"), sum(depth, |n| format!("\\sqrt{{{}}}", 1_000_003 + 2 * n)));
        add(format!("{depth} sines of sums"), sum(depth, |n| format!("\\sin({n}x)")));
        add(format!("{depth} fractions"), sum(depth, |n| format!("\\frac{{1}}{{{}}}", 1_000_003 + n)));
        add(format!("{depth} empty groups"), "1{}".repeat(depth));
        add(format!("{depth} braced signs"), "={-}".repeat(depth) + "1");
        add(format!("{depth} letter circles"), "7^{\\text{o}}+".repeat(depth) + "1");
        add(format!("{depth} outward brackets"), vec!["]1,2["; depth].join("\\cup"));
        add(format!("{depth} open outward brackets"), "]1,".repeat(depth) + "2");
        add(format!("{depth} solutions"), vec!["x=1,y=2"; depth].join(" or "));
        add(format!("{depth} nested solutions"), nested("x=1,y=(", "x=1,y=2 or x=2,y=3", " or x=3,y=4)", depth));
        add(format!("{depth} adjacent pairs"), "(1,2)".repeat(depth));
        add(format!("{depth} nested adjacent pairs"), nested("(1,2)(3,", "4", ")", depth));
        add(format!("{depth} moduli"), format!("x\\equiv{}", "1\\pmod{".repeat(depth) + &"}".repeat(depth)));
        add(format!("{depth} exceptions"), format!("all real numbers except {}", vec!["1"; depth].join(" and ")));
        add(format!("{depth} lengths"), "9 ft ".repeat(depth));
        add(format!("{depth} combinations"), "C_{10}^3".repeat(depth));
        add(format!("{depth} terms in another order"), sum(depth, |n| format!("y_{{{}}}", depth - n)));
        add(format!("{depth} words before a number"), "answer of ".repeat(depth) + "36");
        add(format!("{depth} remarks"), "36".to_owned() + &" (or 37)".repeat(depth));
        add(format!("{depth} unions"), vec!["(1,2)"; depth].join("\\cup"));
        add(format!("{depth} points"), (0..depth).map(|n| format!("\\{{{n}\\}}")).collect::<Vec<_>>().join("\\cup "));
        add(format!("{depth} items"), (0..depth).map(|n| n.to_string()).collect::<Vec<_>>().join(", "));
        add(
            format!("{depth} roots as items"),
            (0..depth).map(|n| format!("\\sqrt{{{n}}}")).collect::<Vec<_>>().join(", "),
        );
        add(format!("a chain of {depth}"), vec!["1"; depth].join("="));
        add(format!("inequalities of {depth}"), vec!["x"; depth].join("<"));
        add(format!("a ratio of {depth}"), vec!["2"; depth].join(":"));
        add(format!("{depth} signs both ways"), "1\\pm".repeat(depth) + "1");
        add(format!("a row of {depth}"), format!("\\begin{{pmatrix}}{}1\\end{{pmatrix}}", "1&".repeat(depth)));
        add(format!("a column of {depth}"), format!("\\begin{{pmatrix}}{}1\\end{{pmatrix}}", "x\\\\".repeat(depth)));
        add(format!("a product of {depth} matrices"), "\\begin{pmatrix}1&x\\\\x&1\\end{pmatrix}".repeat(depth));
        add(format!("{depth} commands"), "\\alpha".repeat(depth));
        add(format!("{depth} subscripts"), nested("x_{", "1", "}", depth));
        add(format!("{depth} units"), "5".to_owned() + &"\\text{ m}".repeat(depth));
        add(format!("{depth} digits"), "7".repeat(depth));
        add(
            format!("{depth} digits over {depth}"),
            format!("\\frac{{{}}}{{{}}}", "7".repeat(depth), "3".repeat(depth)),
        );
        add(format!("{depth} decimals"), format!("0.{}", "3".repeat(depth)));
        add(format!("{depth} dots"), "1,\\ldots,".repeat(depth) + "5");
    }
    add("a polynomial of degree a million".into(), "(x+1)^{500000}(x-1)^{500000}".into());
    add("powers of sines".into(), "\\sin^{1000}(x)+\\cos^{1000}(x)".into());
    add("an integral".into(), "\\int_0^1 e^{-x^2}\\sin(x^3)\\ln(x+1)\\,dx".into());
    add("almost an integer".into(), "e^{\\pi\\sqrt{163}}-262537412640768740".into());
    add("a tower of logarithms".into(), "\\log_{2^5}(\\log_{2^4}(\\log_{2^3}(2^{2^{2^{2^{2}}}})))".into());
    add("powers that nearly cancel".into(), "10^{-1000}+\\pi-\\pi+e^{-5000}".into());
    add("a large angle".into(), "\\sin(10^{30})+\\cos(2^{200})".into());
    let least = i64::MIN;
    let most = i64::MAX;
    add("steps from one end of the integers to the other".into(), format!("{most},{},\\ldots,{least}", most - 1));
    add("environments without a name".into(), "\\begin{".repeat(9000));
    add("a long factor of many cells".into(), {
        let cells = "1&".repeat(1000);
        format!("({})\\begin{{matrix}}{cells}1\\end{{matrix}}", sum(300, |n| format!("x^{{{n}}}")))
    });
    add(
        "many intervals".into(),
        (0..120).map(|n| format!("({},{})", 2 * n, 2 * n + 1)).collect::<Vec<_>>().join("\\cup "),
    );
    add(
        "many ends".into(),
        format!("(0,1)\\cup\\{{{}\\}}", (2..250).map(|n| n.to_string()).collect::<Vec<_>>().join(",")),
    );
    for (name, term) in [("factorials", "k!"), ("large factorials", "20000!"), ("empty sums", "\\sum_{b=2}^{1}1")] {
        add(format!("a sum of {name}"), format!("\\sum_{{k=1}}^{{9999}}{term}"));
        add(format!("a product of {name}"), format!("\\prod_{{k=1}}^{{9999}}{term}"));
    }
    add("roots of a high index".into(), sum(60, |n| format!("\\sqrt[61]{{{}{n}}}", "7".repeat(1000))));
    add("many numbers of many digits".into(), sum(60, |n| format!("\\frac{{1}}{{{}{n}}}", "7".repeat(900))));
    rows
}

#[test]
fn a_plain_check_hardly_allocates() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let rules = Rules::default();
    for (gold, completion, most) in [
        ("42", "After all of this work the result is \\boxed{42}.", 2),
        ("025", "#### 25", 2),
        ("-7", "Answer: -8", 2),
        ("\\frac{3}{4}", "\\boxed{0.75}", 16),
    ] {
        // The harness allocates concurrently, now and then.
        let once = || {
            let before = CALLS.load(Ordering::Relaxed);
            let verdict = check(gold, CheckInput::Completion(completion), &rules);
            (CALLS.load(Ordering::Relaxed) - before, verdict.reason)
        };
        let (calls, reason) = (0..50).map(|_| once()).min_by_key(|(calls, _)| *calls).unwrap();
        assert!(calls <= most, "{gold} takes {calls} allocations: {reason}");
    }
}

#[test]
fn every_hostile_answer_is_judged_in_time_and_memory_and_refused() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let rules = Rules::default();
    let rows = answers();
    assert!(rows.len() >= 100);
    // Constants are computed on first use.
    check("\\pi", CheckInput::Extracted("3.14159\\ln 2"), &rules);
    let max_time = max_time();
    let mut slow = Vec::new();
    let mut most = (0, String::new());
    for (name, answer) in &rows {
        for gold in ["3", "\\sqrt{2}x+\\pi", "(0, 1)", answer.as_str()] {
            let completion = format!("It is \\boxed{{{answer}}}.");
            let held = HELD.load(Ordering::Relaxed);
            MOST.store(held, Ordering::Relaxed);
            let once = || {
                let begun = Instant::now();
                let verdict = check(gold, CheckInput::Completion(&completion), &rules);
                (begun.elapsed(), verdict.outcome())
            };
            let (mut time, outcome) = once();
            let memory = MOST.load(Ordering::Relaxed) - held;
            most = most.max((memory, name.clone()));
            assert!(memory < MAX_HELD, "{name} takes {memory} bytes");
            if gold != answer {
                assert_ne!(outcome, CheckOutcome::Equal, "{name} is rewarded for {gold}");
            }
            // Another process may have used the core.
            for _ in 0..40 {
                if time > max_time {
                    std::thread::sleep(Duration::from_millis(5));
                    time = time.min(once().0);
                }
            }
            if time > max_time {
                slow.push(format!("{name} against {}: {time:?}, {outcome:?}", &gold[..gold.len().min(20)]));
            }
        }
    }
    println!("{} hostile answers, at most {} bytes at once for {}", rows.len(), most.0, most.1);
    assert!(slow.is_empty(), "{} are slow: {slow:#?}", slow.len());
}

#[test]
fn hostile_completions_take_time_in_proportion_to_their_length() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let megabyte = 1 << 20;
    let rules = Profile::Unmarked.rules();
    for piece in [
        "\\boxed{1}",
        "\\boxed{",
        "\\boxed{1} y = ",
        "$x$ ",
        "$",
        "answer is ",
        "answer x ",
        "answer\n",
        "<answer>",
        "</answer><answer>",
        "the answer to ",
        "x #### y ",
        "#### y x ",
        "答案 x ",
        "\\(1",
        "(1,",
        "1,\\ldots,",
        "|",
        "\\begin{matrix}",
    ] {
        let text = piece.repeat(megabyte / piece.len());
        for completion in [text.clone(), format!("{text}\\boxed{{7}}"), format!("\\boxed{{{text}}}")] {
            let once = || {
                let begun = Instant::now();
                let verdict = check("3", CheckInput::Completion(&completion), &rules);
                assert!(!verdict.is_equal(), "{piece}");
                begun.elapsed()
            };
            let time = (0..3).map(|_| once()).min().unwrap();
            assert!(time < Duration::from_secs(60), "{piece} takes {time:?}: not in proportion");
        }
    }
}

#[test]
fn one_pair_has_one_verdict() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let rules = Rules::default();
    for (name, answer) in answers() {
        let first = check("3", CheckInput::Extracted(&answer), &rules).reason;
        assert_eq!(first, check("3", CheckInput::Extracted(&answer), &rules).reason, "{name}");
    }
}
