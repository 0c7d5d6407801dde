//! Messages between ranks, each with a checksum: neither TCP's nor a network card's finds every changed bit.

use evenkeel_proto::v1::{RankMessage, rank_message};

/// A message with its checksum.
pub(crate) fn sealed(mut kind: rank_message::Kind) -> RankMessage {
    let checksum = checksum(&mut kind);
    RankMessage { kind: Some(kind), checksum }
}

/// Whether a message is the one that was sent. Rank 0 passes messages on with the checksum that they came with, so that
/// one which is changed there is found as well.
pub(crate) fn is_whole(message: &mut RankMessage) -> bool {
    message.kind.as_mut().is_some_and(|kind| checksum(kind) == message.checksum)
}

/// CRC-32 of a message's fields as they are encoded, then of the values of a part, which are not copied for it.
fn checksum(kind: &mut rank_message::Kind) -> u32 {
    let values = match kind {
        rank_message::Kind::Part(part) => std::mem::take(&mut part.values),
        _ => Vec::new(),
    };
    let mut fields = Vec::with_capacity(kind.encoded_len());
    kind.encode(&mut fields);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&fields);
    hasher.update(&values);
    if let rank_message::Kind::Part(part) = kind {
        part.values = values;
    }
    hasher.finalize()
}

/// What a message is, for people.
pub(super) fn name_of(kind: Option<&rank_message::Kind>) -> String {
    match kind {
        None => "an empty message".into(),
        Some(rank_message::Kind::Hello(_)) => "a hello".into(),
        Some(rank_message::Kind::Welcome(_)) => "a welcome".into(),
        Some(rank_message::Kind::Command(_)) => "a command".into(),
        Some(rank_message::Kind::Part(part)) => format!("{:?} of exchange {}", part.what, part.operation),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{
        OperateRequest, RankCommand, RankHello, RankOrder, RankPart, RankWelcome, SupervisedBatch, SupervisedExample,
        TrainGroup, TrainHeader, rank_command,
    };
    use prost::Message;

    use super::*;

    /// A message of each kind.
    fn all() -> Vec<RankMessage> {
        let command = |kind| rank_message::Kind::Command(RankCommand { kind: Some(kind) });
        let text = |text: &str| text.to_owned();
        let hello = RankHello {
            rank: 1,
            ranks: 2,
            program: text("0.1.0 sha256:1"),
            settings_hash: text("sha256:2"),
            weights_digest: text("sha256:3"),
            host: text("node/7"),
        };
        let part = |to, values: Vec<u8>| {
            let what = text("gradients");
            rank_message::Kind::Part(RankPart { operation: 300, what, from: 1, to, last: true, values })
        };
        let example = SupervisedExample {
            prompt_token_ids: vec![2, 3],
            response_token_ids: vec![4, 1],
            ..SupervisedExample::default()
        };
        [
            rank_message::Kind::Hello(hello),
            rank_message::Kind::Welcome(RankWelcome {}),
            command(rank_command::Kind::Begin(TrainHeader { step: 4, seed: 5, ..TrainHeader::default() })),
            command(rank_command::Kind::Group(TrainGroup { prompt_token_ids: vec![7, 8], ..TrainGroup::default() })),
            command(rank_command::Kind::Examples(SupervisedBatch { examples: vec![example] })),
            command(rank_command::Kind::Order(RankOrder::Finish.into())),
            command(rank_command::Kind::Operate(OperateRequest { sequence: 9, ..OperateRequest::default() })),
            part(None, Vec::new()),
            part(Some(0), 1.5f32.to_le_bytes().repeat(9)),
        ]
        .map(sealed)
        .into()
    }

    #[test]
    fn a_message_that_arrives_as_it_was_sent_is_whole() {
        for message in all() {
            let mut arrived = RankMessage::decode(&*message.encode_to_vec()).unwrap();
            assert!(is_whole(&mut arrived) && arrived == message, "{message:?}");
        }
    }

    #[test]
    fn any_bit_that_is_flipped_in_any_kind_of_message_is_noticed() {
        for message in all() {
            let sent = message.encode_to_vec();
            for bit in 0..8 * sent.len() {
                let mut bytes = sent.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let Ok(mut arrived) = RankMessage::decode(&*bytes) else { continue };
                // A flag of 3 instead of 1 says the same.
                assert!(!is_whole(&mut arrived) || arrived == message, "bit {bit} of {message:?}");
            }
        }
    }

    #[test]
    fn values_that_change_their_places_are_noticed() {
        let Some(RankMessage { kind: Some(rank_message::Kind::Part(part)), checksum }) = all().pop() else {
            panic!("the last message is a part")
        };
        let mut swapped = part.clone();
        swapped.values.rotate_left(1);
        assert_ne!(swapped, part);
        assert!(!is_whole(&mut RankMessage { kind: Some(rank_message::Kind::Part(swapped)), checksum }));
    }
}
