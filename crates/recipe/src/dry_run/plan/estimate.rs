//! Seconds of a step from a card's figures, and what bounds each part. docs/scaling.md has the formulas and how far to
//! believe them.

use serde::Serialize;

use super::card::Card;

/// The share of a card's products that training reaches: 0.45 to 0.58 was measured on an H200 (docs/performance.md).
const TRAINING_SHARE: f64 = 0.5;
/// Tokens of a sequence after which an update without fused attention takes twice the time: by the bounds of both paths
/// at 4,096 and 16,384 tokens (docs/performance.md).
const UNFUSED_DOUBLES: f64 = 12_800.0;
/// The share of a card's products that an engine reaches; assumed.
const ENGINE_SHARE: f64 = 0.4;
/// The share of a card's bandwidth at which an engine reads weights and keys; assumed.
const BANDWIDTH_SHARE: f64 = 0.6;
/// The share of a card's memory that an engine takes: vLLM's default.
const ENGINE_MEMORY: f64 = 0.9;
/// The share of the engine's memory that must be left for keys and values.
const LEAST_CACHE: f64 = 0.1;

/// What a step asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) samples: f64,
    pub(super) prompt_tokens: f64,
    pub(super) answer_tokens: f64,
    /// Operations for all prompts, each once.
    pub(super) prefill_flops: f64,
    /// Operations for one decoded token.
    pub(super) token_flops: f64,
    /// Gradients, old log-probabilities and reference.
    pub(super) update_flops: f64,
    /// Bytes of the weights as engines have them.
    pub(super) weights: f64,
    /// Bytes that are published after a step: all weights, or those of adapters.
    pub(super) published: f64,
    /// Bytes of the learner that stay on its card while engines are awake.
    pub(super) resident: f64,
    /// Bytes of a token's keys and values.
    pub(super) token_cache: f64,
    /// Whether engines sample the next step while the learner trains.
    pub(super) overlaps: bool,
    /// Bytes a second at which new weights leave the learner's machine.
    pub(super) network: f64,
}

/// How cards are divided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Division {
    pub(super) engines: u64,
    /// Cards of each engine.
    pub(super) cards_an_engine: u64,
    /// Cards that nothing uses.
    pub(super) idle: u64,
    /// Whether the only engine sleeps on the learner's card.
    pub(super) is_shared: bool,
}

/// A part of a step.
#[derive(Debug, Clone, Serialize)]
pub(super) struct StepPart {
    pub(super) what: &'static str,
    pub(super) seconds: f64,
    pub(super) bound_by: &'static str,
}

/// One card for the learner, the others for engines, of as few cards as hold the weights; `None` if they do not fit all
/// of them together. A shared card has `resident` bytes of the learner too.
pub(super) fn divide(cards: u64, card: Card, weights: f64, resident: f64) -> Option<Division> {
    let is_shared = cards == 1;
    let free = if is_shared { 1 } else { cards - 1 };
    let fits = |count: u64| {
        let beside = if is_shared { resident } else { 0.0 };
        weights <= (1.0 - LEAST_CACHE) * engine_memory(count, card, beside)
    };
    let each = (0..).map(|power| 1u64 << power).take_while(|&count| count <= free).find(|&count| fits(count))?;
    let engines = free / each;
    Some(Division { engines, cards_an_engine: each, idle: free - engines * each, is_shared })
}

/// Bytes of an engine's cards for weights and cache, beside what another process has on them.
fn engine_memory(cards: u64, card: Card, beside: f64) -> f64 {
    let all = cards as f64 * card.memory_gib * f64::from(1 << 30);
    (ENGINE_MEMORY * all).min(all - beside)
}

/// The share of a card's products that training reaches, with sequences of so many tokens.
fn training_share(card: Card, tokens: f64) -> f64 {
    if card.has_fused_attention { TRAINING_SHARE } else { TRAINING_SHARE / (1.0 + tokens / UNFUSED_DOUBLES) }
}

/// The parts of a step, and its seconds.
pub(super) fn step(work: &Work, card: Card, division: Division) -> (Vec<StepPart>, f64) {
    let generation = generation(work, card, division);
    let update = StepPart {
        what: "update",
        seconds: work.update_flops / (training_share(card, work.prompt_tokens + work.answer_tokens) * card.flops),
        bound_by: if card.has_fused_attention {
            "products of the learner's card"
        } else {
            "products of the learner's card, without fused attention"
        },
    };
    let switch = StepPart {
        what: "weights to engines",
        seconds: division.engines as f64 * work.published / work.network,
        bound_by: "the network of the learner's machine (--network)",
    };
    let seconds = if work.overlaps {
        generation.seconds.max(update.seconds) + switch.seconds
    } else {
        generation.seconds + update.seconds + switch.seconds
    };
    (vec![generation, update, switch], seconds)
}

fn generation(work: &Work, card: Card, division: Division) -> StepPart {
    let cards = division.cards_an_engine as f64;
    let flops = ENGINE_SHARE * cards * card.flops;
    let bandwidth = BANDWIDTH_SHARE * cards * card.bandwidth;
    let engines = division.engines as f64;
    let samples = (work.samples / engines).ceil();
    let beside = if division.is_shared { work.resident } else { 0.0 };
    let memory = engine_memory(division.cards_an_engine, card, beside) - work.weights;
    let longest = work.prompt_tokens + work.answer_tokens;
    let at_once = (memory / (work.token_cache * longest)).floor().clamp(1.0, samples);
    // A token of each running sample: weights are read once, keys and values of each sample, which is half way on
    // average.
    let keys = at_once * work.token_cache * (work.prompt_tokens + work.answer_tokens / 2.0) / bandwidth;
    let weights = work.weights / bandwidth;
    let products = at_once * work.token_flops / flops;
    let token = products.max(weights + keys);
    let seconds = work.prefill_flops / engines / flops + work.answer_tokens * samples / at_once * token;
    let bound_by = match (products >= weights + keys, weights >= keys) {
        (true, _) => "products of the engines' cards",
        (_, true) => "reading weights: more samples per engine would cost nothing",
        _ => "reading keys and values",
    };
    StepPart { what: "generation", seconds, bound_by }
}

#[cfg(test)]
mod tests {
    use super::super::card::CARDS;
    use super::*;

    fn work() -> Work {
        Work {
            samples: 2048.0,
            prompt_tokens: 256.0,
            answer_tokens: 4096.0,
            prefill_flops: 1e14,
            token_flops: 3.4e9,
            update_flops: 1e17,
            weights: 3.4e9,
            published: 3.4e9,
            resident: 30e9,
            token_cache: 114_688.0,
            overlaps: false,
            network: 10e9,
        }
    }

    #[test]
    fn seconds_are_those_of_the_formula() {
        let card = Card::of("h200").unwrap();
        let work = Work { samples: 10.0, ..work() };
        let division = Division { engines: 2, cards_an_engine: 1, idle: 0, is_shared: false };
        let (parts, seconds) = step(&work, card, division);
        // Five samples an engine: 3.4 GB of weights and 5 × 114,688 × 2,304 B of keys at 2.88 TB/s, 4,096 times.
        let token = (3.4e9 + 5.0 * 114_688.0 * 2304.0) / 2.88e12;
        let wanted = 0.5e14 / (0.4 * 989e12) + 4096.0 * token;
        assert!((parts[0].seconds / wanted - 1.0).abs() < 1e-12, "{} {wanted}", parts[0].seconds);
        assert_eq!(parts[0].bound_by, "reading weights: more samples per engine would cost nothing");
        assert!((parts[1].seconds - 1e17 / 494.5e12).abs() < 1e-9 && (parts[2].seconds - 0.68).abs() < 1e-9);
        assert!((seconds - parts.iter().map(|part| part.seconds).sum::<f64>()).abs() < 1e-9);
        let (_, overlapped) = step(&Work { overlaps: true, ..work }, card, division);
        assert!((overlapped - parts[1].seconds - 0.68).abs() < 1e-9, "the update is the longer one");
    }

    #[test]
    fn an_engine_takes_as_few_cards_as_hold_its_weights() {
        let small = Card::of("l4").unwrap();
        let large = Card::of("h100").unwrap();
        let division = |engines, cards_an_engine, idle| Division { engines, cards_an_engine, idle, is_shared: false };
        assert_eq!(divide(8, large, 15.2e9, 0.0), Some(division(7, 1, 0)));
        assert_eq!(divide(8, small, 30e9, 0.0), Some(division(3, 2, 1)));
        assert_eq!(divide(2, small, 30e9, 0.0), None);
        let alone = Division { is_shared: true, ..division(1, 1, 0) };
        assert_eq!(divide(1, large, 15.2e9, 60e9), Some(alone));
        assert_eq!(divide(1, large, 15.2e9, 70e9), None, "the learner's share of the card leaves too little");
    }

    #[test]
    fn more_cards_and_shorter_answers_never_make_a_step_longer() {
        // But for the weights, which every engine gets.
        let seconds = |cards, card, work: &Work| {
            let (parts, seconds) = step(work, card, divide(cards, card, work.weights, work.resident).unwrap());
            seconds - parts[2].seconds
        };
        for (card, overlaps) in CARDS.into_iter().flat_map(|card| [(card, false), (card, true)]) {
            for (cards, answer_tokens) in
                (2..64).flat_map(|cards| [16.0, 900.0, 20_000.0].map(|answer| (cards, answer)))
            {
                let work = Work { answer_tokens, overlaps, ..work() };
                let now = seconds(cards, card, &work);
                assert!(now.is_finite() && now > 0.0);
                let shorter = Work { answer_tokens: answer_tokens / 2.0, ..work };
                assert!(seconds(2 * cards, card, &work) <= now * (1.0 + 1e-9), "{card:?}, {cards}, {answer_tokens}");
                assert!(seconds(cards, card, &shorter) <= now * (1.0 + 1e-9), "{card:?}, {cards}, {answer_tokens}");
            }
        }
    }

    #[test]
    fn one_card_that_learner_and_engine_share_has_less_room_for_keys_than_an_engines_own() {
        let card = Card::of("h200").unwrap();
        let seconds = |cards| step(&work(), card, divide(cards, card, 3.4e9, 30e9).unwrap()).0[0].seconds;
        assert!(seconds(1) > seconds(2), "{} {}", seconds(1), seconds(2));
    }

    #[test]
    fn long_sequences_take_longer_on_cards_without_fused_attention() {
        let share = |name: &str, tokens| training_share(Card::of(name).unwrap(), tokens) / TRAINING_SHARE;
        assert_eq!(share("h200", 16_384.0), 1.0);
        // The bounds of both paths: 62.3 of 83.0 % at 4,096 tokens, 37.4 of 83.7 % at 16,384.
        for (tokens, bound) in [(4096.0, 62.3 / 83.0), (16_384.0, 37.4 / 83.7)] {
            assert!((share("a100", tokens) / bound - 1.0).abs() < 0.02, "{tokens}: {}", share("a100", tokens));
        }
    }

    #[test]
    fn weights_reach_every_engine_over_one_network() {
        let card = Card::of("h200").unwrap();
        let seconds = |cards| step(&work(), card, divide(cards, card, 3.4e9, 0.0).unwrap()).0[2].seconds;
        assert_eq!(seconds(65), 64.0 * seconds(2));
    }
}
