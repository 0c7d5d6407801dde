//! Which sequences go through the model together: parts, whose sequences have one prompt, and micro-batches of parts.

use std::collections::HashMap;
use std::ops::Range;

use crate::blocks::Place;
use crate::sequence::Sequence;

/// Tokens of a part: its prompt once, and what each sequence has after it.
fn length(sequences: &[Sequence], part: &[usize]) -> usize {
    part.first().map_or(0, |&first| sequences[first].prompt().len())
        + part.iter().map(|&one| sequences[one].own_rows()).sum::<usize>()
}

/// Parts in micro-batches of at most `budget` tokens, or of one longer part, the longest first.
pub(crate) fn by_length(sequences: &[Sequence], parts: &[Vec<usize>], budget: usize) -> Vec<Vec<Vec<usize>>> {
    let lengths: Vec<usize> = parts.iter().map(|part| length(sequences, part)).collect();
    let of_parts = |batch: Vec<usize>| batch.into_iter().map(|part| parts[part].clone()).collect();
    partition(&lengths, budget).into_iter().map(of_parts).collect()
}

pub(crate) fn one_by_one(all: Range<usize>) -> Vec<Vec<usize>> {
    all.map(|index| vec![index]).collect()
}

/// Whether a part with a prompt of this many tokens takes sequences that have this many together after it. The longer a
/// prompt, the more there are for each time that it is computed.
fn has_room(prompt: usize, own: usize, tokens: usize) -> bool {
    own <= tokens.max(prompt)
}

/// Consecutive sequences of one group in parts of one prompt, each of which is a micro-batch: with `tokens` tokens
/// after the prompt, or as many as the prompt has, or one longer sequence. Sequences without a prompt have `tokens` in
/// all, and no rows in common. What is cut where follows from the group alone.
pub(crate) fn in_order(
    sequences: &[Sequence],
    places: &[Place],
    all: Range<usize>,
    tokens: usize,
) -> Vec<Vec<Vec<usize>>> {
    let mut batches = Vec::<Vec<usize>>::new();
    let mut own = 0;
    for index in all.clone() {
        let sequence = &sequences[index];
        own += sequence.own_rows();
        let is_alike = index > all.start
            && places[index].group == places[index - 1].group
            && sequence.prompt() == sequences[index - 1].prompt();
        match batches.last_mut() {
            Some(batch) if is_alike && has_room(sequence.prompt().len(), own, tokens) => batch.push(index),
            _ => {
                batches.push(vec![index]);
                own = sequence.own_rows();
            }
        }
    }
    let without_prompt = |batch: &Vec<usize>| batch.first().is_some_and(|&first| sequences[first].prompt().is_empty());
    let parts = |batch: Vec<usize>| {
        if without_prompt(&batch) { batch.into_iter().map(|one| vec![one]).collect() } else { vec![batch] }
    };
    batches.into_iter().map(parts).collect()
}

/// Sequences with the same prompt in parts that compute it once, of the sizes of [`in_order`].
pub(crate) fn by_prompt(sequences: &[Sequence], tokens: usize) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    // The last part of each prompt, and its tokens after the prompt.
    let mut open: HashMap<&[u32], (usize, usize)> = HashMap::new();
    for (index, sequence) in sequences.iter().enumerate() {
        match open.get_mut(sequence.prompt()) {
            Some((part, own))
                if !sequence.prompt().is_empty()
                    && has_room(sequence.prompt().len(), *own + sequence.own_rows(), tokens) =>
            {
                parts[*part].push(index);
                *own += sequence.own_rows();
            }
            _ => {
                open.insert(sequence.prompt(), (parts.len(), sequence.own_rows()));
                parts.push(vec![index]);
            }
        }
    }
    parts
}

/// Assigns parts of these lengths to micro-batches of at most `budget` tokens, or of one longer part.
///
/// Longest first, so that the parts of a micro-batch have similar lengths and the model's threads even loads.
/// The result depends on lengths alone; parts of equal length keep their order.
fn partition(lengths: &[usize], budget: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(lengths[index]));
    let mut batches = Vec::new();
    let mut batch = Vec::new();
    let mut tokens = 0;
    for index in order {
        if !batch.is_empty() && tokens + lengths[index] > budget {
            batches.push(std::mem::take(&mut batch));
            tokens = 0;
        }
        batch.push(index);
        tokens += lengths[index];
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Groups with the lengths of their prompts and of their responses; prompts of different groups differ.
    fn sequences(groups: &[(usize, Vec<usize>)]) -> (Vec<Sequence>, Vec<Place>) {
        let of_group = |(group, (prompt, responses)): (usize, &(usize, Vec<usize>))| {
            let prompt = vec![group as u32; *prompt];
            let sequence = |response: &usize| {
                let ids = [&prompt[..], &vec![99; *response]].concat();
                let last = ids.len() - 1;
                (Sequence::new(ids, prompt.len(), vec![last]), Place { block: 0, group })
            };
            responses.iter().map(sequence).collect::<Vec<_>>()
        };
        groups.iter().enumerate().flat_map(of_group).unzip()
    }

    /// A part of a micro-batch: with one prompt, and within its size.
    fn is_a_part(part: &[usize], sequences: &[Sequence], tokens: usize) -> bool {
        let prompt = sequences[part[0]].prompt();
        let own: usize = part.iter().map(|&index| sequences[index].own().len()).sum();
        let is_within = own <= tokens.max(prompt.len()) || part.len() == 1;
        is_within && part.iter().all(|&index| sequences[index].prompt() == prompt)
    }

    proptest! {
        #[test]
        fn every_part_is_in_one_micro_batch_within_the_budget(
            lengths in prop::collection::vec(1usize..50, 0..60),
            budget in 1usize..120,
        ) {
            let batches = partition(&lengths, budget);
            let mut all: Vec<usize> = batches.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..lengths.len()).collect::<Vec<_>>());
            for batch in batches {
                let tokens: usize = batch.iter().map(|&i| lengths[i]).sum();
                prop_assert!(tokens <= budget || batch.len() == 1);
            }
        }

        #[test]
        fn sequences_whose_gradient_is_summed_stay_in_order_and_are_cut_within_their_group_alone(
            groups in prop::collection::vec((0usize..90, prop::collection::vec(2usize..50, 1..6)), 1..8),
            tokens in 1usize..120,
        ) {
            let (all, places) = sequences(&groups);
            let batches = in_order(&all, &places, 0..all.len(), tokens);
            prop_assert_eq!(batches.concat().concat(), (0..all.len()).collect::<Vec<_>>());
            for parts in &batches {
                let members = parts.concat();
                prop_assert!(members.iter().all(|&member| places[member].group == places[members[0]].group));
                prop_assert!(is_a_part(&members, &all, tokens));
                // With a prompt it is one part, and without one each sequence is.
                let has_prompt = !all[members[0]].prompt().is_empty();
                prop_assert_eq!(parts.len(), if has_prompt { 1 } else { members.len() });
            }
            // A group alone has the same micro-batches.
            let sizes = batches.iter().map(|parts| parts.concat().len());
            let alone = groups.iter().flat_map(|group| {
                let (all, places) = sequences(std::slice::from_ref(group));
                in_order(&all, &places, 0..all.len(), tokens)
            });
            prop_assert!(sizes.eq(alone.map(|parts| parts.concat().len())));
        }

        #[test]
        fn sequences_to_score_share_their_prompts_wherever_they_stand(
            groups in prop::collection::vec((0usize..90, prop::collection::vec(2usize..50, 1..6)), 1..8),
            tokens in 1usize..120,
            shuffled in any::<prop::sample::Index>(),
        ) {
            let (mut all, _) = sequences(&groups);
            let count = all.len();
            all.rotate_left(shuffled.index(count));
            let parts = by_prompt(&all, tokens);
            let mut members = parts.concat();
            members.sort_unstable();
            prop_assert_eq!(members, (0..count).collect::<Vec<_>>());
            for part in &parts {
                prop_assert!(is_a_part(part, &all, tokens));
                prop_assert!(part.len() == 1 || !all[part[0]].prompt().is_empty());
            }
            // A prompt is counted once in a part.
            for part in &parts {
                let own: usize = part.iter().map(|&index| all[index].own().len()).sum();
                prop_assert_eq!(length(&all, part), all[part[0]].prompt().len() + own);
            }
        }
    }
}
