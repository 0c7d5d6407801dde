//! The text of a template before it is compiled.

use std::borrow::Cow;

use super::RenderError;

/// Longest template: several times the longest of public models.
const MAX_BYTES: usize = 128 << 10;
/// What checks the value of `{% set name = value %}`.
pub(super) const STORED: &str = "__stored";
/// What checks the value of `{% set namespace.name = value %}`.
pub(super) const STORED_IN_NAMESPACE: &str = "__stored_in_namespace";

/// The text as it is compiled:
/// - with line ends as Jinja makes them;
/// - with the blocks that mark what the assistant said as plain scopes: minijinja does not know `{% generation %}`,
///   which changes no text;
/// - with a check around each value that a tag stores. Lines stay where they are.
///
/// # Errors
/// A text that is too long.
pub(super) fn prepared(text: &str) -> Result<String, RenderError> {
    if text.len() > MAX_BYTES {
        let bytes = text.len();
        return Err(RenderError::new(format!("the template has {bytes} bytes, allowed: at most {MAX_BYTES}")));
    }
    let text = if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(start) = ["{%", "{{", "{#"].iter().filter_map(|open| rest.find(open)).min() {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let length = match from.as_bytes()[1] {
            b'#' => from[2..].find("#}").map_or(from.len(), |end| end + 4),
            b'{' => tag_end(from, "}}"),
            _ => tag_end(from, "%}"),
        };
        let (tag, after) = from.split_at(length);
        rest = after;
        match from.as_bytes()[1] {
            b'%' => push_tag(&mut out, tag),
            _ => out.push_str(tag),
        }
        if from.as_bytes()[1] == b'%' && is_bare(tag, "raw") {
            // Text up to its end, whatever it looks like.
            let end = raw_end(rest);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Where a tag ends that begins here: after its closing delimiter, outside of strings and brackets, as the engine finds
/// it. The whole text if there is none.
fn tag_end(text: &str, close: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 2;
    let mut quote = None;
    let mut open = 0_i64;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(begun), byte) if byte == begun => quote = None,
            (Some(_), _) => {}
            (None, byte @ (b'\'' | b'"')) => quote = Some(byte),
            (None, _) if open == 0 && bytes[at..].starts_with(close.as_bytes()) => return at + close.len(),
            (None, b'(' | b'[' | b'{') => open += 1,
            (None, b')' | b']' | b'}') => open -= 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Where the text of `{% raw %}` ends: at the tag that ends it.
fn raw_end(text: &str) -> usize {
    let mut from = 0;
    while let Some(start) = text[from..].find("{%") {
        let at = from + start;
        if is_bare(&text[at..], "endraw") {
            return at;
        }
        from = at + 2;
    }
    text.len()
}

/// The first word of a tag.
fn keyword(tag: &str) -> &str {
    let inner = inner(tag);
    let end = inner.find(|character: char| !(character.is_alphanumeric() || character == '_')).unwrap_or(inner.len());
    &inner[..end]
}

/// Whether a tag begins here that is that word and nothing else.
fn is_bare(text: &str, word: &str) -> bool {
    let after = inner(text).strip_prefix(word).map(|after| after.trim_ascii_start());
    after.is_some_and(|after| after.strip_prefix(['-', '+']).unwrap_or(after).starts_with("%}"))
}

/// What follows the opening delimiter, its sign and white space.
fn inner(tag: &str) -> &str {
    let inner = &tag[2..];
    inner.strip_prefix(['-', '+']).unwrap_or(inner).trim_ascii_start()
}

/// Appends a tag of a block.
fn push_tag(out: &mut String, tag: &str) {
    let word = keyword(tag);
    let at = word.as_ptr() as usize - tag.as_ptr() as usize;
    let before = &tag[..at];
    let after = &tag[at + word.len()..];
    match word {
        "generation" if is_bare(tag, word) => out.extend([before, "with", after]),
        "endgeneration" if is_bare(tag, word) => out.extend([before, "endwith", after]),
        "set" => {
            out.extend([before, word]);
            push_assignment(out, after);
        }
        _ => out.push_str(tag),
    }
}

/// Appends what follows `set` in a tag, with the check of the value.
fn push_assignment(out: &mut String, text: &str) {
    let Some(body) = text.strip_suffix("%}") else { return out.push_str(text) };
    let (body, close) = match body.strip_suffix(['-', '+']) {
        Some(shorter) => (shorter, &text[shorter.len()..]),
        None => (body, "%}"),
    };
    match body.find(['=', '|']) {
        Some(at) if body.as_bytes()[at] == b'=' => {
            let (target, value) = body.split_at(at + 1);
            let check = if target.contains('.') { STORED_IN_NAMESPACE } else { STORED };
            // In parentheses of their own several values are one tuple.
            out.extend([target, check, "((", value, "))", close]);
        }
        // A block, whose text goes through filters: those may make anything of it.
        Some(_) if body.contains('.') => out.extend([body, "|", STORED_IN_NAMESPACE, close]),
        _ => out.extend([body, close]),
    }
}

#[cfg(test)]
mod tests {
    use super::prepared;

    #[test]
    fn blocks_of_the_assistant_are_scopes_and_keep_their_white_space_control() {
        let text = "a{%- generation -%}b{%endgeneration%}{% if generation %}{{ generation }}{% endif %}{% generation";
        let expected = "a{%- with -%}b{%endwith%}{% if generation %}{{ generation }}{% endif %}{% generation";
        assert_eq!(prepared(text).unwrap(), expected);
    }

    #[test]
    fn what_is_stored_is_checked_wherever_it_is_written() {
        for (text, expected) in [
            ("{% set x = 1 %}", "{% set x =__stored(( 1 ))%}"),
            ("{%- set a.b = '%}' -%}", "{%- set a.b =__stored_in_namespace(( '%}' ))-%}"),
            ("{% set a, b = 1, 2 %}", "{% set a, b =__stored(( 1, 2 ))%}"),
            ("{%set\nx\n=\n[x]\n%}", "{%set\nx\n=__stored((\n[x]\n))%}"),
            ("{% set x %}y{% endset %}", "{% set x %}y{% endset %}"),
            (
                "{% set a.b | default(a, true) %}{% endset %}",
                "{% set a.b | default(a, true) |__stored_in_namespace%}{% endset %}",
            ),
            ("{# {% set x = 1 %} #}{{ '{% set x = 1 %}' }}", "{# {% set x = 1 %} #}{{ '{% set x = 1 %}' }}"),
            (
                "{{ {'a': {'b': 1}} ~ '{#' }}{% set n.a = n %}{# #}",
                "{{ {'a': {'b': 1}} ~ '{#' }}{% set n.a =__stored_in_namespace(( n ))%}{# #}",
            ),
            ("{#}{% set x = 1 %}#}{% set x = 1 %}", "{#}{% set x = 1 %}#}{% set x =__stored(( 1 ))%}"),
            (
                "{% raw %}{% endraw x %}{#{% endraw %}{% set x = 1 %}",
                "{% raw %}{% endraw x %}{#{% endraw %}{% set x =__stored(( 1 ))%}",
            ),
            ("{% raw %}{% set x = 1 %}{{{%- endraw %}", "{% raw %}{% set x = 1 %}{{{%- endraw %}"),
            ("{{ '\\'}}' }}{% set x = \"\\\"%}\" %}", "{{ '\\'}}' }}{% set x =__stored(( \"\\\"%}\" ))%}"),
            ("{% settle = 1 %}{% set", "{% settle = 1 %}{% set"),
        ] {
            assert_eq!(prepared(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn lines_end_in_newlines_alone() {
        assert_eq!(prepared("a\r\nb\rc\n").unwrap(), "a\nb\nc\n");
    }
}
