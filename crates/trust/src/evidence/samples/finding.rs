//! What a failed check says: the number, what it means, and what to look at.

use evenkeel_errors::engine_advice::FOLDER_SETS_NOTHING;

use super::check::SamplerCheck;
use super::engine::{AuditSums, EngineChecks};
use super::engines::FailedCheck;

impl FailedCheck<'_> {
    /// The number, what it means, and what to look at.
    pub(crate) fn finding(&self) -> String {
        let Self { checks, check, threshold, .. } = *self;
        let sums = &checks.sums;
        let (what, look) = match check {
            SamplerCheck::Temperature => temperature(checks),
            SamplerCheck::Truncation => truncation(checks),
            SamplerCheck::EndToken => end_token(checks),
            SamplerCheck::LogProbabilities => log_probabilities(checks),
            SamplerCheck::Copies => copies(checks),
            SamplerCheck::Answers => answers(checks),
            SamplerCheck::Rows => rows(checks),
        };
        let evidence = checks.evidence(check);
        format!(
            "{what}; evidence {evidence:.1e}, allowed: below {threshold:.1e}, after {} tokens of {} samples; {look}",
            sums.tokens + sums.other_tokens,
            sums.sequences + sums.other_sequences
        )
    }
}

fn end_token(engine: &EngineChecks) -> (String, String) {
    let (expected, seen) = engine.ends();
    (
        format!("answers ended {seen} times, expected were {expected:.1}"),
        "the engine ignores the end of sequence or stops at something else (ignore_eos, min_tokens, a stop list or a \
         bias of its own), or takes end tokens out of answers"
            .to_owned(),
    )
}

fn copies(engine: &EngineChecks) -> (String, String) {
    let sums = &engine.sums;
    (
        format!(
            "{} answers are equal to an earlier one of their prompt, expected were {:.2}",
            sums.copies, sums.expected_copies
        ),
        "samples of a prompt share their random numbers: the engine ignores the seed of a request, or answers from a \
         cache"
            .to_owned(),
    )
}

fn answers(engine: &EngineChecks) -> (String, String) {
    let AuditSums { shorter, likelier, longest, .. } = engine.sums;
    if engine.are_drawn_again() {
        return (
            format!(
                "among answers to one prompt, tokens after which they are among the longest eighth came {} times, \
                 expected were {:.1}",
                longest.1, longest.0
            ),
            "the engine draws its longest answers again (a deadline of its own, slow requests that are sent anew)"
                .to_owned(),
        );
    }
    (
        format!(
            "among answers to one prompt, tokens after which they are shorter came {} times, expected were {:.1}; those \
             after which they are likelier {} times, expected were {:.1}",
            shorter.1, shorter.0, likelier.1, likelier.0
        ),
        "the engine does not return each answer that it draws: it draws several and chooses, or draws long ones again \
         (best_of, a deadline of its own)"
            .to_owned(),
    )
}

fn rows(engine: &EngineChecks) -> (String, String) {
    let ids = engine.rows().map(|(id, mean, tokens)| format!("id {id} by {mean:+.2e} nats (mean of {tokens})"));
    (
        format!("gaps sit on few token ids: {}", ids.collect::<Vec<_>>().join(", ")),
        "rows of its head or embeddings are not those of the published weights: compare lm_head.weight and \
         embed_tokens.weight there, and a logit bias of its own"
            .to_owned(),
    )
}

fn temperature(engine: &EngineChecks) -> (String, String) {
    let sums = &engine.sums;
    if engine.is_about_the_likeliest() {
        let what = format!(
            "{} of {} answers at temperature 0 have a token that is not the likeliest, by more than noise",
            sums.not_likeliest, sums.other_sequences
        );
        return (what, "it has other weights, or returns answers that it did not compute".to_owned());
    }
    let tokens = sums.inside.max(1) as f64;
    let mean = sums.surprise / tokens;
    let variance = sums.variance / tokens;
    let relative = 1.0 / (1.0 + mean / variance).max(0.01);
    let what = format!(
        "log p + entropy of its tokens is {mean:+.4} nats on average, which should be 0 (variance {variance:.2}): as \
         of a temperature {relative:.2} times that of the settings"
    );
    let look = if engine.are_tokens_too_likely() {
        "its tokens are too likely: it samples at a lower temperature, greedily, or cuts off unlikely tokens"
    } else {
        "its tokens are too unlikely: it samples at a higher temperature, or penalises repetition"
    };
    let look = format!("{look} ({FOLDER_SETS_NOTHING})");
    (what, look)
}

fn truncation(engine: &EngineChecks) -> (String, String) {
    let names = [
        "in the least likely 1 %",
        "in the least likely 5 %",
        "beyond rank 5",
        "beyond rank 50",
        "below 0.01 of the likeliest",
        "below 0.05 of the likeliest",
    ];
    let counts =
        engine.rare().zip(names).map(|((expected, seen), name)| format!("{name} {seen} of {expected:.1} expected"));
    let outside = match engine.sums.outside {
        0 => String::new(),
        outside => format!(", and {outside} that the settings exclude"),
    };
    (
        format!("tokens {}{outside}", counts.collect::<Vec<_>>().join(", ")),
        format!(
            "the engine truncates by a top-p, top-k or min-p that the run does not have, or not by those that it has \
             ({FOLDER_SETS_NOTHING})"
        ),
    )
}

fn log_probabilities(engine: &EngineChecks) -> (String, String) {
    let sums = &engine.sums;
    let tokens = sums.inside.max(1) as f64;
    let size = (sums.squared_gap / tokens).sqrt();
    let mean = sums.gap / tokens;
    let slope = sums.gap_by_surprise / sums.squared_surprise.max(f64::MIN_POSITIVE);
    let what = format!(
        "its log-probabilities of its own tokens are {size:.2e} nats (root mean square) from the learner's under the \
         same version, {mean:+.2e} on average, with a slope of {slope:+.2e} on log p + entropy; the worst sample is \
         {:.2e} away",
        sums.worst_sequence
    );
    let look = if engine.are_rounded() {
        "they are rounded to three decimals: it reports other numbers than it computes".to_owned()
    } else if engine.are_gaps_large() {
        "they are not those of these tokens after this prompt: ids exchanged, a prompt that was cut or another \
         one, answers from a cache, or log-probabilities that are not the engine's; where a narrower or quantized type \
         is meant, raise proof.tolerance"
            .to_owned()
    } else {
        format!(
            "it samples from, and reports, another distribution than was asked for: a slope is another temperature, a \
             mean a truncation ({FOLDER_SETS_NOTHING})"
        )
    };
    (what, look)
}

#[cfg(test)]
mod tests {
    use evenkeel_statistics::evidence::{PREFERENCE_BETS, Preference, REDRAWN_BET};

    use super::super::tolerances::Tolerances;
    use super::*;

    #[test]
    fn answers_that_are_drawn_again_are_told_from_those_that_are_chosen_each_with_its_numbers() {
        let finding = |bet: usize| {
            let mut checks = EngineChecks::new(Tolerances::new(0.01, false));
            checks.begin_round();
            let mut factors = [1.0; PREFERENCE_BETS];
            factors[bet] = 1e9;
            let counts = Preference { shorter: (4.5, 9.0), longest: (12.5, 3.0), ..Preference::default() };
            checks.add_preference(&Preference { factors, ..counts });
            let check = SamplerCheck::Answers;
            FailedCheck { engine: "a", check, checks: &checks, threshold: 35_000.0 }.finding()
        };
        let (again, chosen) = (finding(REDRAWN_BET), finding(0));
        assert!(again.contains("among the longest eighth came 3 times, expected were 12.5; evidence"), "{again}");
        assert!(again.ends_with("(a deadline of its own, slow requests that are sent anew)"), "{again}");
        assert!(chosen.contains("shorter came 9 times, expected were 4.5") && !chosen.contains("eighth"), "{chosen}");
    }
}
