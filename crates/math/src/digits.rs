//! Decimal digits beyond ASCII: variants of 0 to 9, which are read, and digits of other scripts, which are rejected.

/// Zeros of blocks of ten digits that are variants of 0 to 9: full-width, mathematical alphabets, outlined, segmented.
const FORMS: [u32; 8] = [0xff10, 0x1ccf0, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1fbf0];

/// Zeros of the digits of other scripts: all of Unicode 16's category Nd apart from ASCII and [`FORMS`], ascending.
const ZEROS: [u32; 67] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20,
    0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0,
    0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0x104a0, 0x10d30, 0x10d40, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0,
    0x11450, 0x114d0, 0x11650, 0x116c0, 0x116d0, 0x116da, 0x11730, 0x118e0, 0x11950, 0x11bf0, 0x11c50, 0x11d50,
    0x11da0, 0x11f50, 0x16130, 0x16a60, 0x16ac0, 0x16b50, 0x16d70, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e5f1, 0x1e950,
];

/// The ASCII digit that a character is a variant of.
pub(crate) fn to_ascii(character: char) -> Option<char> {
    let code = u32::from(character);
    FORMS.iter().find_map(|zero| char::from_digit(code.checked_sub(*zero).filter(|digit| *digit < 10)?, 10))
}

/// Whether a character is a digit of another script.
pub(crate) fn is_other_script(character: char) -> bool {
    let code = u32::from(character);
    let zeros = ZEROS.partition_point(|zero| *zero <= code);
    let nearest = zeros.checked_sub(1).and_then(|last| ZEROS.get(last));
    nearest.is_some_and(|zero| code - zero < 10)
}

/// Whether a character is a combining mark or a variation selector.
pub(crate) fn is_mark(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digit_is_a_form_of_an_ascii_one_or_of_another_script() {
        for (character, digit) in [('０', '0'), ('９', '9'), ('𝟎', '0'), ('𝟗', '9'), ('𝟘', '0'), ('𝟿', '9'), ('🯵', '5')]
        {
            assert_eq!((to_ascii(character), is_other_script(character)), (Some(digit), false), "{character}");
        }
        for character in ['٠', '٩', '۴', '०', '९', '৪', '๓', '᠐', '𞥙'] {
            assert_eq!((to_ascii(character), is_other_script(character)), (None, true), "{character}");
        }
        for character in ['0', '9', 'a', '½', '²', 'Ⅳ', '①', '二', '〇', 'ß', '\u{65f}', '\u{66a}', '－'] {
            assert_eq!((to_ascii(character), is_other_script(character)), (None, false), "{character}");
        }
    }

    #[test]
    fn zeros_are_in_order_and_ten_apart() {
        assert!(ZEROS.is_sorted_by(|a, b| a + 10 <= *b));
        // What Rust knows as numeric holds all of them.
        assert!(ZEROS.iter().filter_map(|zero| char::from_u32(*zero)).all(char::is_numeric));
    }
}
