//! The text of a template before it is compiled.

use std::borrow::Cow;

/// The text with line ends as Jinja makes them, and with the blocks that mark what the assistant said as plain scopes: minijinja does not
/// know `{% generation %}`, which changes no text.
pub(super) fn prepared(text: &str) -> String {
    let text = if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        let name_at = tag.len() - tag.trim_start_matches(['-', '+']).trim_start().len();
        let (space, name) = tag.split_at(name_at);
        rest = tag;
        for (found, scope) in [("generation", "with"), ("endgeneration", "endwith")] {
            if let Some(end) = name.strip_prefix(found)
                && end.trim_start().trim_start_matches(['-', '+']).starts_with("%}")
            {
                out.push_str(space);
                out.push_str(scope);
                rest = end;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::prepared;

    #[test]
    fn blocks_of_the_assistant_are_scopes_and_keep_their_white_space_control() {
        let text = "a{%- generation -%}b{%endgeneration%}{% if generation %}{{ generation }}{% endif %}{% generation";
        let expected = "a{%- with -%}b{%endwith%}{% if generation %}{{ generation }}{% endif %}{% generation";
        assert_eq!(prepared(text), expected);
    }

    #[test]
    fn lines_end_in_newlines_alone() {
        assert_eq!(prepared("a\r\nb\rc\n"), "a\nb\nc\n");
    }
}
