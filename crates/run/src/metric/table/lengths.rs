//! Lengths of responses, and their weight under the aggregation rules.

use super::rows;
use crate::metric::row::{Metric, Unit};
use crate::metric::{Gauge, Shown};

const RESPONSE_GAUGE: Gauge = Gauge::by(
    "evenkeel_run_response_tokens",
    &["answers"],
    "mean length of the step's responses, in tokens: of all, of correct and of incorrect ones",
);
const LONGEST_GAUGE: Gauge =
    Gauge::of_one("evenkeel_run_longest_response_tokens", "length of the step's longest response");
const PROMPT_GAUGE: Gauge = Gauge::of_one("evenkeel_run_prompt_tokens", "mean length of the step's prompts");
const TRUNCATED_GAUGE: Gauge =
    Gauge::of_one("evenkeel_run_truncated_ratio", "share of responses that reached the longest allowed length");
const PULL_GAUGE: Gauge = Gauge::by(
    "evenkeel_run_pull",
    &["advantage"],
    "sum of weight times absolute advantage over tokens with a positive and with a negative advantage",
);
const VARIATION_GAUGE: Gauge = Gauge::of_one(
    "evenkeel_run_length_variation_ratio",
    "coefficient of variation of lengths within a group, mean over groups",
);
const GAP_GAUGE: Gauge = Gauge::of_one(
    "evenkeel_run_length_gap_tokens",
    "how much longer responses with a negative advantage are, mean over groups",
);

const SIDES: &str = "the aggregation is `sides`";
const COMPLETION: &str = "`pipeline.order` is `\"completion\"`";

rows! {
    RESPONSE_LENGTH = Metric::value("response_length/{mean,max,min}", Unit::Tokens, "length of the step's responses")
        .titled("response length")
        .shown(&[Shown::under(&RESPONSE_GAUGE, &["all"]).choosing("mean"), Shown::by(&LONGEST_GAUGE).choosing("max")]);
    CORRECT_LENGTH = Metric::value("response_length/correct/mean", Unit::Tokens, "mean length of correct responses")
        .shown(&[Shown::under(&RESPONSE_GAUGE, &["correct"])]);
    INCORRECT_LENGTH =
        Metric::value("response_length/incorrect/mean", Unit::Tokens, "mean length of incorrect responses")
            .shown(&[Shown::under(&RESPONSE_GAUGE, &["incorrect"])]);
    TRUNCATED =
        Metric::value("response_length/clip_ratio", Unit::Share, "share of answers that reached the longest length")
            .titled("truncated answers")
            .shown(&[Shown::by(&TRUNCATED_GAUGE)]);
    PROMPT_LENGTH = Metric::value("prompt_length/{mean,max,min}", Unit::Tokens, "length of the step's prompts")
        .shown(&[Shown::by(&PROMPT_GAUGE).choosing("mean")]);

    LENGTH_VARIATION = Metric::value(
        "aggregation/length_cv",
        Unit::None,
        "coefficient of variation of response lengths within a group",
    )
    .titled("length variation")
    .shown(&[Shown::by(&VARIATION_GAUGE)]);
    LENGTH_VARIATION_POOLED = Metric::value(
        "aggregation/length_cv_pooled",
        Unit::None,
        "coefficient of variation of all response lengths of the step",
    );
    LENGTH_GAP = Metric::value(
        "aggregation/length_gap",
        Unit::Tokens,
        "how much longer answers with a negative advantage are than those with a positive one in their group",
    )
    .titled("length gap")
    .shown(&[Shown::by(&GAP_GAUGE)]);
    LENGTH_GAP_POOLED = Metric::value(
        "aggregation/length_gap_pooled",
        Unit::Tokens,
        "how much longer wrong answers are than correct ones, over all groups of the step together",
    );
    PULL = Metric::value(
        "aggregation/pull_{positive,negative}",
        Unit::None,
        "sum of weight times absolute advantage over tokens with a positive and with a negative advantage",
    )
    .shown(&[
        Shown::under(&PULL_GAUGE, &["positive"]).choosing("positive"),
        Shown::under(&PULL_GAUGE, &["negative"]).choosing("negative"),
    ]);
    SIDE_RATIO = Metric::value(
        "aggregation/side_ratio",
        Unit::None,
        "what multiplied the positive side at the step: the value of `side_ratio` there",
    )
    .only(SIDES);
    SILENCED_GROUPS = Metric::count(
        "aggregation/silenced_groups",
        Unit::None,
        "groups that have answers to learn from and gave no gradient of the policy: at a ratio of 0, those without a wrong answer",
    )
    .only(SIDES);
    RULE_PULL = Metric::value(
        "aggregation/{rule}/pull_{positive,negative}",
        Unit::None,
        "the pulls as every rule would have them",
    );
    RULE_BIAS = Metric::value(
        "aggregation/{rule}/bias",
        Unit::None,
        "the positive pull over the negative one under every rule",
    );
    RULE_SHARE = Metric::value(
        "aggregation/{rule}/share_q{1,2,3,4}",
        Unit::Share,
        "share of the gradient that the shortest (1) to the longest (4) quarter of the responses with an advantage has \
        under every rule, rounded to four decimal places ([objective.md](objective.md#quantities))",
    );
    RULE_WEIGHT = Metric::value(
        "aggregation/{rule}/weight_q{1,2,3,4}",
        Unit::None,
        "mean weight of a token in each quarter relative to the mean token of the rule, rounded likewise",
    );
    QUARTER_LENGTH =
        Metric::value("aggregation/length_q{1,2,3,4}", Unit::Tokens, "mean length of each quarter, rounded likewise");

    TAKEN_LENGTH = Metric::value(
        "pipeline/completion/taken_length",
        Unit::Tokens,
        "mean length of the responses that the step took",
    )
    .only(COMPLETION);
    LEFT_LENGTH = Metric::value(
        "pipeline/completion/left_length",
        Unit::Tokens,
        "mean length of the responses that had ended by then and are in no step",
    )
    .only(COMPLETION);
    WAITING_GROUPS =
        Metric::value("pipeline/completion/waiting_groups", Unit::None, "complete groups that were in no step then")
            .only(COMPLETION);
    UNFINISHED_ANSWERS =
        Metric::value("pipeline/completion/unfinished_answers", Unit::None, "responses that had not ended then")
            .only(COMPLETION);
    OVERTAKEN_GROUPS = Metric::count(
        "pipeline/completion/overtaken_groups",
        Unit::None,
        "groups of the step that were overtaken: an earlier step already trained on prompts that come later in the \
        data order",
    )
    .only(COMPLETION);
}
