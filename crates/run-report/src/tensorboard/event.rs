//! TensorFlow's `Event` message as protocol buffers have it on the wire.

use std::collections::BTreeMap;

/// What an event says.
pub(super) enum EventContent<'a> {
    /// The first one of a file.
    FileVersion,
    /// The values of a step.
    Scalars(&'a BTreeMap<String, f64>),
    /// Events of this step and later ones that came before do not count: they were done again.
    Restart,
}

/// An event at a time, in seconds since 1970.
pub(super) fn event(wall_time: f64, step: u64, what: &EventContent) -> Vec<u8> {
    let mut message = Vec::new();
    // double wall_time = 1; int64 step = 2
    message.push(1 << 3 | 1);
    message.extend_from_slice(&wall_time.to_le_bytes());
    if step > 0 {
        message.push(2 << 3);
        varint(&mut message, step);
    }
    match what {
        // string file_version = 3
        EventContent::FileVersion => bytes(&mut message, 3, b"brain.Event:2"),
        // Summary summary = 5
        EventContent::Scalars(values) => bytes(&mut message, 5, &summary(values)),
        // SessionLog session_log = 7, with SessionStatus status = 1 of START
        EventContent::Restart => bytes(&mut message, 7, &[1 << 3, 1]),
    }
    message
}

/// What an event that was written here means for the steps of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    None,
    /// This step has values.
    Step(u64),
    /// From this step on none count any more.
    Restart(u64),
}

/// Reads an event. `None` where this program did not write the bytes.
pub(super) fn meaning(event: &[u8]) -> Option<Meaning> {
    let rest = event.strip_prefix(&[1 << 3 | 1])?.get(8..)?;
    let (step, rest) = match rest.strip_prefix(&[2 << 3]) {
        Some(rest) => read_varint(rest)?,
        None => (0, rest),
    };
    match rest.first()? >> 3 {
        3 => Some(Meaning::None),
        5 => Some(Meaning::Step(step)),
        7 => Some(Meaning::Restart(step)),
        _ => None,
    }
}

fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// `repeated Value value = 1`, each with `string tag = 1` and `float simple_value = 2`.
fn summary(values: &BTreeMap<String, f64>) -> Vec<u8> {
    let mut summary = Vec::new();
    for (name, value) in values {
        let mut message = Vec::with_capacity(name.len() + 8);
        bytes(&mut message, 1, name.as_bytes());
        message.push(2 << 3 | 5);
        message.extend_from_slice(&(*value as f32).to_le_bytes());
        bytes(&mut summary, 1, &message);
    }
    summary
}

fn bytes(message: &mut Vec<u8>, field: u8, content: &[u8]) {
    message.push(field << 3 | 2);
    varint(message, content.len() as u64);
    message.extend_from_slice(content);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_back() {
        let values = BTreeMap::from([("a".to_owned(), 0.5)]);
        for step in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let read = |what: &EventContent| meaning(&event(1.5, step, what));
            assert_eq!(read(&EventContent::Restart), Some(Meaning::Restart(step)));
            assert_eq!(read(&EventContent::Scalars(&values)), Some(Meaning::Step(step)));
            assert_eq!(read(&EventContent::FileVersion), Some(Meaning::None));
        }
        assert_eq!(meaning(b"no event"), None);
    }
}
