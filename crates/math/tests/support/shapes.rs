//! What completions are made of, by our own hand.

/// Sentences of solutions, in many scripts.
pub(super) const PROSE: &[&str] = &[
    "Let's solve the problem step by step.",
    "First, we note that $x^2 - 5x + 6 = 0$ factors as $(x-2)(x-3) = 0$.",
    "Wait, that is not right: I forgot the sign. Let me check again…",
    "To find the answer, substitute $y = 3$ into the equation; the first root is not 10 which is 1,000.99€.",
    "## Step 1 – simplify\n- **Given:** a/b = ¾\n- *Find:* `b`",
    "```python\nprint(sum(range(10)))  # {45}\n```",
    "首先，我们设未知数为 x，则 2x＋3＝9，解得 x＝3。",
    "所以这个三角形的面积是 √25 × 30° ÷ 2（平方厘米）。",
    "解：由题意得，当 n≥2 时，aₙ＝2aₙ₋₁＋1，故 a₁₀＝1023。",
    "よって、求める確率は ½ である。答えは次の通りです。",
    "따라서 정답은 다음과 같습니다: 삼각형의 넓이는 6㎠이다.",
    "Следовательно, ответ равен −3; проверим: 2·(−3)+7=1.",
    "إذن المساحة تساوي ٢٥ سم²، والجواب هو",
    "לכן התשובה היא 7 (ראו שורה קודמת)",
    "अतः उत्तर १२ है, क्योंकि ३ × ४ = १२।",
    "ดังนั้นคำตอบคือ ๕ เพราะ 2+3=5",
    "Vậy đáp số là 5, vì 2·5 − 3 = 7. Thử lại: đúng ✔️",
    "Donc l’aire vaut 3,14 × 2² ≈ 12,56 cm² — c'est-à-dire environ 12 ½.",
    "Folglich ist f′(x) = 3x² − 2 für alle x ∈ ℝ, größer als 0 für |x| > √⅔.",
    "Άρα η γωνία είναι ω = π/2 και sin ω = 1.",
    "Şimdi n = 4 için İ(n) = ığdır; yanıt aşağıdadır.",
    "তাই উত্তর হল ৪২।",
    "Zo̅ vindt men x̄ = 3̂ en ȳ = é\u{301}.",
    "The family 👨‍👩‍👧‍👦 has 5️⃣ apples 🍎🍎 and ½ 🥧 left → 🎉",
    "∀ε>0 ∃δ>0: |x−a|<δ ⇒ |f(x)−f(a)|<ε ∎",
    "∑_{k=1}^{n} k = n(n+1)/2, ∏ p = 2·3·5, ∫₀¹ x dx = ½",
    "I hope it is correct. The answer is in the box above} and \\} here.",
    "Put your final answer within \\boxed{}.",
];

/// Formulas between their delimiters.
pub(super) const FORMULAS: &[&str] = &[
    "$$\\int_0^1 x^2\\,dx = \\frac{1}{3}$$",
    "\\[ \\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix} \\]",
    "\\( a^2 + b^2 = c^2 \\)",
    "$\\sqrt{25} = 5$",
    "\\begin{align*}\nx &= 2 \\\\\ny &= \\boxed{3}\n\\end{align*}",
    "$S = \\{ x \\in \\mathbb{R} \\mid x > 0 \\}$",
    "$\\underbrace{1+1+\\cdots+1}_{n\\text{ 次}} = n$",
    "$\\left\\lfloor \\frac{7}{2} \\right\\rfloor = 3$",
    "\\[\\sum_{k=1}^{\\infty} \\frac{1}{k^2} = \\frac{\\pi^2}{6}\\]",
    "$\\text{面积} = 30°$",
    "√(x²+1) ≤ 2·|x| ∧ x ≠ −½",
    "sin² θ + cos² θ = 1",
];

/// What completions are framed by, whole and cut.
#[rustfmt::skip]
pub(super) const FRAMES: &[&str] = &[
    "<think>", "</think>", "<think>\nmaybe \\boxed{7}?\n</think>", "<|im_end|>", "<answer>", "</answer>", "####",
    "#### 42", "Answer:", "**Answer:** ", "**Final Answer**\n", "The final answer is", "final answer is: $", "答案：",
    "Answer：", "\\boxed", "\\boxed{", "\\fbox{", "\\boxe", "\\box{", "{\\boxed{3}}", "\\framebox{1}", "}", "{",
    "\\}", "\\{", "$", "$$", "\\[", "\\]", "\\(", "\\)", "```", "\u{feff}", "\0",
];

/// Lead-ins before an answer.
#[rustfmt::skip]
pub(super) const LEADS: &[&str] = &[
    "", "So √25 = ", "所以，x=", "sin 30° = ", "x = ", "y_2 = ", "f(π) = ", "因此 aₙ＝", "Ответ: ", "الجواب = ", "答案是：",
    "答：", "∴ ", "⇒ x₁ = ", "é=", "e\u{301} = ", "🎉=", "x̄ = ", "\u{200b}x=", "Thus the answer is ", "= ", "$", "$$",
    "\\[", "\\(", "**", "正解は", "정답: ", "कुल = ", "ω=", "n! = ", "a_{10}=", "\\text{ and }", ", ", "。", "（",
    "\\text{所以 }", "½=",
];

/// Markers: the text before and after the answer.
pub(super) const MARKS: &[(&str, &str)] = &[
    ("\\boxed{", "}"),
    ("\\boxed{", "}"),
    ("\\boxed{", "}"),
    ("\\boxed{", "}$"),
    ("$\\boxed{", "}$"),
    ("\\fbox{", "}"),
    ("\\boxed {", "}"),
    ("\\boxed\n{", "}"),
    ("\\boxed ", ""),
    ("\\boxed", ""),
    ("\\boxed{", ""),
    ("\\boxed{\\boxed{", "}}"),
    ("\\boxed{\\text{", "}}"),
    ("\n#### ", "\n"),
    ("\nAnswer: ", "\n"),
    ("**Answer:** $", "$"),
    ("The final answer is $", "$. I hope it is correct."),
    ("\nAnswer:\n\\[\n", "\n\\]"),
    ("", ""),
];

/// Answers and gold answers.
#[rustfmt::skip]
pub(super) const ANSWERS: &[&str] = &[
    "5", "-3", "0", "42", "1,000", "3.14", ".5", "10^{10}", "2^{2024}", "\\frac12", "\\frac{3}{4}",
    "\\dfrac{-7}{2}", "3\\frac{1}{2}", "3/4", "50\\%", "\\$5", "11\\sqrt2", "√2", "2√3", "\\sqrt[3]{2}", "x^2+2x+1",
    "(x+1)^2", "\\pi", "2π", "e^{i\\pi}", "i", "\\frac{1+\\sqrt5}{2}", "\\log_2 8", "5!", "\\binom{5}{2}",
    "\\binom{0}{0}", "\\sum_{k=1}^{10} k", "\\prod_{k=1}^{3} k", "\\lfloor 3.5 \\rfloor", "|x-1|", "60^\\circ",
    "60°", "5 cm", "5\\text{ cm}^2", "10 km/h", "1950^\\circ C", "(1, 2)", "[0, 1)", "(-\\infty, 3]",
    "\\{1, 2, 3\\}", "1, 2, 3", "1, 2, \\ldots, 10", "1 \\text{ or } 2", "3 \\pm \\sqrt2", "x = 5", "x=1, y=2",
    "y = 2x + 3", "0 < x \\le 1", "x \\ne 2", "x \\in [1, 2) \\cup (3, 4]", "\\mathbb{R} \\setminus \\{0\\}",
    "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "1:2:3", "20:34", "8:34 p.m.", "52_8",
    "2516_{\\text{eight}}", "B", "(C)", "\\text{(D)}", "\\text{Evelyn}", "no solution", "\\emptyset", "\\infty",
    "½", "2½", "−½", "２½", "１２", "−５", "－５", "–7", "٤٢", "१२", "𝟒𝟐", "²⁄₃", "1⁄2", "x²", "2³", "x₁", "5⁻¹", "1、2",
    "（1，2）", "５％", "½π", "⅐", "4️⃣", "①", "Ⅳ", "二", "三分之一", "5 см", "5平方厘米", "x̄", "é", "\\frac{√2}{2}",
    "f(x)=x²−1", "sin 30°", "\\sin^2 x", "\\overline{AB}", "\\frac{dy}{dx}", "0.\\overline{3}", "10^{-20}", "1/0",
    "\\frac{1}{0}", "", " ", "\\",
];

/// Pieces of commands and operators, whole and cut.
#[rustfmt::skip]
pub(super) const PIECES: &[&str] = &[
    "\\frac", "\\fra", "\\frac{", "\\frac12", "\\frac{1}", "\\sqrt", "\\sqrt[", "\\sqrt[3]", "\\sum", "\\sum_",
    "\\sum_{", "\\sum_{k=1}", "\\sum_{k=1}^", "\\prod_", "\\prod_{k=0}^{3}", "\\binom", "\\binom{", "\\binom{0}{0}",
    "\\log_", "\\log_2", "\\sin", "\\sin^{-1}", "\\sin^", "\\left", "\\right", "\\left.", "\\right)", "\\text",
    "\\text{", "\\begin", "\\begin{", "\\begin{pmatrix}", "\\end", "\\end{pmatrix}", "\\end{", "\\\\", "\\", "&",
    "^", "_", "^{", "_{", "^\\circ", "^{\\circ}", "\\hat", "\\hat{x}", "\\overline", "\\not", "\\not=", "\\pm",
    "\\mp", "\\ldots", "...", "\\lfloor", "\\rfloor", "|", "||", "!", "!!", "!=", "<=", ">=", "<>", "==", "->",
    "=>", "**", "*", "/", "+", "-", "=", "<", ">", ",", ";", ":", "(", ")", "[", "]", "{", "}", "\\{", "\\}", "%",
    "\\%", "$", "\\$", "€", "'", "''", ".", "./", "~", "\\,", "\\!", "{,}", "\\over", "\\choose", "\\mod", "\\bmod",
    "\\gcd(", "\\max(", "\\min", "f(", "a_{n+1}", "x_i", "e", "i", "pi", "sinx", "log", "and", "or", "andX", "orW",
    "cm", " cm", "cubic m^", "square ", "per", "mod", "E5", "e-3", "\\times 10^", "\\times 10^{-9999}", "0", "1",
    "7", "00", "000", "9223372036854775807", "-9223372036854775808", "18446744073709551616",
    "99999999999999999999999999999999999999", "0.000000000000000000001", "x", "n", "²", "₂", "½", "√", "∑", "−",
    "×", "÷", "π", "∞", "≤", "∈", "∪", "°", "′", "…", "٤", "४", "５", "。", "，", "（", "）", "⁄", "⁻", "\u{338}",
    "\u{301}", "\u{20e3}", "\u{fe0f}", "\u{200b}",
];

/// What nests: opened, held and closed.
pub(super) const NESTS: &[(&str, &str, &str)] = &[
    ("(", "1", ")"),
    ("{", "1", "}"),
    ("[", "1", "]"),
    ("\\{", "1", "\\}"),
    ("\\left(", "x", "\\right)"),
    ("\\frac{1}{", "2", "}"),
    ("\\frac{", "2", "}{3}"),
    ("\\frac", "1", "2"),
    ("\\sqrt{", "2", "}"),
    ("\\sqrt", "2", ""),
    ("\\sqrt[", "3", "]{2}"),
    ("\\text{", "a", "}"),
    ("\\boxed{", "4", "}"),
    ("2^{", "2", "}"),
    ("2^", "2", ""),
    ("x_{", "1", "}"),
    ("\\sin ", "x", ""),
    ("\\sin(", "x", ")"),
    ("\\sum_{k=1}^{", "3", "}"),
    ("\\begin{matrix}", "1", "\\end{matrix}"),
    ("|", "x", "|"),
    ("-", "1", ""),
    ("", "1", "!"),
    ("", "1", "\\%"),
    ("1,", "2", ""),
    ("1/", "2", ""),
    ("(1,", "2", ")"),
    ("(x", "+1", ")"),
    ("\\hat{", "x", "}"),
    ("\\log_{", "2", "}"),
    ("\\not", "=", ""),
    ("√", "2", ""),
    ("½", "", ""),
    ("²", "", ""),
    ("＝", "1", ""),
    ("x=", "1", ""),
    ("\\cup ", "[0,1]", ""),
    ("f(", "x", ")"),
    ("a_", "n", ""),
    ("\\pm ", "1", ""),
    ("1:", "2", ""),
    ("x'", "", "'"),
];

/// Characters that cuts and classes go wrong at: of each length in bytes, marks, joiners, directions, controls, forms
/// and digits.
#[rustfmt::skip]
pub(super) const CHARACTERS: &[char] = &[
    'é', 'ß', 'ı', 'İ', 'ſ', 'Ω', 'ё', 'ש', 'ع', 'क', 'ก', '가', '所', '答', 'あ', 'ｗ', '𝑥', '𝟒', '🎉', '👨', '\u{301}',
    '\u{304}', '\u{338}', '\u{20dd}', '\u{20e3}', '\u{fe0f}', '\u{fe0e}', '\u{e0100}', '\u{e0067}', '\u{200b}',
    '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{2028}',
    '\u{2029}', '\u{85}', '\u{a0}', '\u{3000}', '\u{202f}', '\u{ad}', '\u{feff}', '\u{fffd}', '\u{ffff}',
    '\u{10ffff}', '\u{e000}', '\0', '\u{8}', '\u{c}', '\u{7f}', '\r', '√', '∑', '∏', '∫', '½', '⅐', '↉', '⅟', '²',
    '³', '⁴', '⁻', 'ⁿ', '₀', '₁', '₋', '٣', '۴', '४', '৪', '๕', '５', '－', '−', '–', '—', '＋', '％', '°', '′', '″',
    '×', '÷', '±', '∓', '·', '⋅', '≤', '≥', '≠', '≈', '∞', '∈', '∪', '∩', '∅', 'ℝ', 'π', '⟨', '⌊', '⌉', '｛', '｝',
    '＼', '＄', '＾', '＿', '（', '）', '，', '。', '、', '：', '；', '⁄', '∕', '①', 'Ⅳ', '㎝', '㎡', 'ﬁ', 'µ', 'K', '\\', '{',
    '}', '$', '^', '_', '#', '<', '>', '&', '%', '~', '|', '\'', '"', '`', '*',
];

/// Numbers at the ends of what is computed with, and names.
#[rustfmt::skip]
pub(super) const NUMBERS: &[&str] = &[
    "0", "1", "-1", "2", "-2", "3", "10", "100", "\\frac12", "-\\frac{1}{3}", "0.5", "0.333", "2.718281828", "i",
    "e", "\\pi", "x", "n", "k", "63", "64", "256", "257", "1000", "1001", "3000", "20000", "65536", "4294967296",
    "9223372036854775807", "-9223372036854775808", "-9223372036854775807", "18446744073709551615",
    "18446744073709551616", "170141183460469231731687303715884105727", "10^{38}", "10^{-38}", "2^{61}", "2^{63}",
    "-2^{63}", "2^{64}", "10^{4000}", "10^{-4000}", "1e9999", "1e-9999", "2305843009213691357",
    "2305843009213688909", "1099511627776", "0.00000000000000000000000000000000000000001",
    "99999999999999999999999999999999999999999999999999", "50\\%", "30^\\circ",
];

/// Expressions with `@` in place of sub-expressions.
#[rustfmt::skip]
pub(super) const FORMS: &[&str] = &[
    "@+@", "@-@", "@ \\cdot @", "\\frac{@}{@}", "(@)^{@}", "(@)!", "(@)!!", "\\binom{@}{@}", "\\sqrt{@}",
    "\\sqrt[@]{@}", "\\log_{@} (@)", "\\ln (@)", "\\log (@)", "\\exp (@)", "\\sin (@)", "\\cos (@)", "\\tan (@)",
    "\\cot (@)", "\\sec (@)", "\\csc (@)", "\\arcsin (@)", "\\arccos (@)", "\\arctan (@)", "\\sinh (@)",
    "\\cosh (@)", "\\tanh (@)", "\\tanh^{-1} (@)", "\\cosh^{-1} (@)", "\\lfloor @ \\rfloor", "\\lceil @ \\rceil",
    "|@|", "(@) \\bmod (@)", "\\gcd(@, @)", "\\operatorname{lcm}(@, @)", "\\min(@, @)", "\\max(@, @)",
    "\\sum_{k=@}^{@} (@)", "\\prod_{k=@}^{@} (@)", "f(@)", "a_{@}", "\\operatorname{Re}(@)",
    "\\operatorname{Im}(@)", "(@, @)", "[@, @)", "\\{@, @\\}", "@, @, \\ldots, @", "@ : @", "@ \\pm @", "@ = @",
    "@ < x \\le @", "x = @", "@\\%", "@ \\text{ cm}^{@}", "5 \\text{ cubic m}^{@}", "[@, @] \\cup (@, @)",
    "\\begin{pmatrix} @ & @ \\\\ @ & @ \\end{pmatrix}", "@ \\begin{pmatrix} @ \\\\ @ \\end{pmatrix}^T",
    "@ \\times 10^{@}", "(@)^\\circ", "(@)_{@}",
];
