//! What each of several ranks has computed of the responses of a batch, made known to all, in the order that one
//! process has.

use evenkeel_objective::{PolicyStats, TermStats};

use super::equality::Difference;
use super::group_weights::{Place, PlannedResponse};
use super::loss::ResponseStats;
use crate::error::Result;
use crate::ranks::{ByteReader, ByteWriter, RankError};
use crate::trainer::Trainer;

/// The first response of any rank whose log-probabilities are not the engine's. Alone nothing is exchanged.
pub(super) fn gather_difference(trainer: &Trainer, own: Option<Difference>) -> Result<Option<Difference>> {
    if trainer.division().is_alone() {
        return Ok(own);
    }
    let mut writer = ByteWriter::default();
    if let Some(Difference { place, token, reported, computed, differing, tokens }) = own {
        write_place(&mut writer, place);
        [token, differing, tokens].into_iter().for_each(|count| writer.u64(count as u64));
        writer.f32s(&[reported, computed]);
    }
    let mut first = None;
    for (rank, bytes) in trainer.gather("comparisons", writer.bytes())?.iter().enumerate() {
        let mut reader = ByteReader::new(rank, bytes);
        if !reader.is_empty() {
            first = Difference::first(first, Some(read_difference(rank, &mut reader)?));
        }
    }
    Ok(first)
}

/// The sums of the responses of all ranks, by their places. Alone nothing is exchanged.
pub(super) fn gather_stats(trainer: &Trainer, own: Vec<ResponseStats>) -> Result<Vec<ResponseStats>> {
    if trainer.division().is_alone() {
        return Ok(own);
    }
    let mut writer = ByteWriter::default();
    own.iter().for_each(|stats| write(&mut writer, stats));
    let mut all = Vec::new();
    for (rank, bytes) in trainer.gather("sums of responses", writer.bytes())?.iter().enumerate() {
        let mut reader = ByteReader::new(rank, bytes);
        while !reader.is_empty() {
            all.push(read(&mut reader)?);
        }
    }
    all.sort_by_key(|stats| stats.place);
    Ok(all)
}

/// Gives each response the log-probabilities that some rank has computed for it. The responses are in the order of
/// their places. Alone nothing is exchanged.
pub(super) fn gather_logp(trainer: &Trainer, responses: &mut [PlannedResponse]) -> Result<()> {
    if trainer.division().is_alone() {
        return Ok(());
    }
    let mut writer = ByteWriter::default();
    for response in responses.iter() {
        let old = response.old_logp();
        let others = response.other_logp();
        if old.is_none() && others.is_empty() {
            continue;
        }
        write_place(&mut writer, response.place());
        writer.flag(old.is_some());
        old.into_iter().for_each(|logp| writer.f32s(logp));
        writer.u64(others.len() as u64);
        others.iter().for_each(|logp| writer.f32s(logp));
    }
    for (rank, bytes) in trainer.gather("log-probabilities", writer.bytes())?.iter().enumerate() {
        let mut reader = ByteReader::new(rank, bytes);
        while !reader.is_empty() {
            let place = read_place(&mut reader)?;
            let old = if reader.flag()? { Some(reader.f32s()?) } else { None };
            let others: Vec<_> = (0..reader.u64()?).map(|_| reader.f32s()).collect::<Result<_, _>>()?;
            let at = responses.binary_search_by_key(&place, PlannedResponse::place).map_err(|_| RankError::Failed {
                rank,
                message: format!("it scored response {place:?}, which is not of this batch"),
            })?;
            let response = &mut responses[at];
            old.into_iter().for_each(|logp| response.set_old_logp(logp));
            if !others.is_empty() {
                response.set_other_logp(others);
            }
        }
    }
    Ok(())
}

fn read_difference(rank: usize, reader: &mut ByteReader<'_>) -> Result<Difference, RankError> {
    let place = read_place(reader)?;
    let (token, differing, tokens) = (reader.usize()?, reader.usize()?, reader.usize()?);
    match reader.f32s()?[..] {
        [reported, computed] => Ok(Difference { place, token, reported, computed, differing, tokens }),
        _ => Err(RankError::Failed { rank, message: "its comparison has not two log-probabilities".to_owned() }),
    }
}

fn write_place(writer: &mut ByteWriter, (group, index): Place) {
    writer.u64(group as u64);
    writer.u64(index as u64);
}

fn read_place(reader: &mut ByteReader<'_>) -> Result<Place, RankError> {
    Ok((reader.usize()?, reader.usize()?))
}

fn write(writer: &mut ByteWriter, stats: &ResponseStats) {
    let ResponseStats {
        place,
        logp_sum,
        ratio_sum,
        policy,
        terms,
        entropy_sum,
        entropy_loss,
        largest_ratio,
        rollout_gap,
    } = stats;
    let PolicyStats { loss, tokens, clipped, clipped_lower, negative_log_ratio, correction_sum, correction_bounded } =
        *policy;
    write_place(writer, *place);
    [logp_sum, ratio_sum, entropy_sum, entropy_loss, largest_ratio, rollout_gap]
        .into_iter()
        .for_each(|number| writer.f64(*number));
    [loss, negative_log_ratio, correction_sum].into_iter().for_each(|number| writer.f64(number));
    [tokens, clipped, clipped_lower, correction_bounded, terms.len()]
        .into_iter()
        .for_each(|number| writer.u64(number as u64));
    for TermStats { loss, sum, tokens, bounded } in terms {
        writer.f64(*loss);
        writer.f64(*sum);
        writer.u64(*tokens as u64);
        writer.u64(*bounded as u64);
    }
}

fn read(reader: &mut ByteReader<'_>) -> Result<ResponseStats, RankError> {
    let place = read_place(reader)?;
    let [logp_sum, ratio_sum, entropy_sum, entropy_loss, largest_ratio, rollout_gap] = numbers(reader)?;
    let [loss, negative_log_ratio, correction_sum] = numbers(reader)?;
    let mut count = || reader.usize();
    let tokens = count()?;
    let clipped = count()?;
    let clipped_lower = count()?;
    let correction_bounded = count()?;
    let terms = (0..count()?).map(|_| read_term(reader)).collect::<Result<_, _>>()?;
    let policy =
        PolicyStats { loss, tokens, clipped, clipped_lower, negative_log_ratio, correction_sum, correction_bounded };
    Ok(ResponseStats {
        place,
        logp_sum,
        ratio_sum,
        policy,
        terms,
        entropy_sum,
        entropy_loss,
        largest_ratio,
        rollout_gap,
    })
}

fn read_term(reader: &mut ByteReader<'_>) -> Result<TermStats, RankError> {
    let [loss, sum] = numbers(reader)?;
    Ok(TermStats { loss, sum, tokens: reader.usize()?, bounded: reader.usize()? })
}

fn numbers<const N: usize>(reader: &mut ByteReader<'_>) -> Result<[f64; N], RankError> {
    let mut numbers = [0.0; N];
    for number in &mut numbers {
        *number = reader.f64()?;
    }
    Ok(numbers)
}
