use super::*;

#[test]
fn only_what_follows_the_thinking_counts() {
    for name in TAGS {
        for (open, close) in [('<', '>'), ('◁', '▷')] {
            let upper = name.to_uppercase();
            for name in [name, &upper, &format!("{name} ")] {
                let text = format!("{open}{name}{close}a{open}/{name}{close}b");
                assert_eq!(answer(&text), Some("b"), "{text}");
            }
        }
    }
    for text in [
        "b",
        "opened by the prompt</think>b",
        "[THINK]a[/THINK]b",
        "<|begin_of_thought|>a<|end_of_thought|>b",
        "<think>a</think>c<think>d</think>b",
        "<think>The </think> tag ends it.</think>b",
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
        "analysisWe think.assistantfinalb",
        "<|channel|>final<|message|>b<|end|><|start|>assistant<|channel|>analysis<|message|>a",
        "<|channel|>final<|message|>b<|channel|>analysis<|message|>a<|end|>",
        "<think type=\"x\">a</think>b",
        "<think\n>a</think\n>b",
        "< think>a</ think>b",
        "<|think|>a<|/think|>b",
        "<|thinking|>a<|end_of_thinking|>b",
        "<|im_start|>think\na<|im_end|>b",
        "[REASONING]a[/REASONING]b",
        "[BEGIN THINKING]a[END THINKING]b",
        "<unused94>thought\na<unused95>b",
        "<｜begin▁of▁thought｜>a<｜end▁of▁thought｜>b",
        "Here is my thought process: a Here is my response:b",
        "```thinking\na\n```b",
        "{think}a{/think}b",
        "&lt;think&gt;a&lt;/think&gt;b",
        "[reasoning]a[/reasoning]b",
    ] {
        assert_eq!(answer(text), Some("b"), "{text}");
    }
    for name in [
        "antThinking",
        "longcat_think",
        "think_on",
        "cot",
        "chain_of_thought",
        "internal_thoughts",
        "inner_monologue",
        "monologue",
        "rationale",
        "reflect",
        "self_reflection",
        "reasoning_content",
        "thinking_process",
        "scratch_pad",
        "chain-of-thought",
    ] {
        let text = format!("<{name}>a</{name}>b");
        assert_eq!(answer(&text), Some("b"), "{text}");
        assert_eq!(answer(&format!("c <{name}>a")), None, "{name}");
    }
}

#[test]
fn thinking_that_never_ends_has_no_answer() {
    for text in [
        "<think>a",
        "[THINK]a",
        "◁think▷a",
        "<Thoughts >a",
        "<think>a</think>b<think>c",
        "<think>\"a\"",
        "<|begin_of_thought|>a",
        "<|channel|>analysis<|message|>a",
        "analysisWe think.",
        "<think type=\"x\">a",
        "<think\n>a",
        "< think>a",
        "<|think|>a",
        "<|im_start|>think\na",
        "[REASONING]a",
        "[BEGIN THINKING]a",
        "<unused94>thought\na",
        "Here is my thought process: a",
        "```thinking\na",
    ] {
        assert_eq!(answer(text), None, "{text}");
    }
}

#[test]
fn other_tags_and_quoted_ones_are_text() {
    for text in [
        "<thread>1",
        "x.split('</think>')[-1]",
        "print(\"<think>\")",
        "The tag `<think>` is text.",
        "[1, 2]",
        "analysis shows 4",
        "Analysis: 4",
        "[reasoning] 4",
        "x < think > y",
        "let x: Vec<Thoughtful> = list::<Reason>();",
        "if a <reason && b > c",
        "the [reason] is 4",
        "the [REASON] is 4",
        "<cot x, 4>",
        "<answer>4</answer>",
        "<|no_think|>4",
        "<think/>4",
        "<think />4",
        "<|im_start|>assistant\n4<|im_end|>",
    ] {
        assert_eq!(answer(text), Some(text), "{text}");
    }
}
