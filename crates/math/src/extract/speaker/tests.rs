use super::*;
use crate::extract::sentence::words_of;

fn is_quoted(sentence: &str, problem: &str) -> bool {
    let words = words_of(sentence);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut known = Known::default();
    known.add(problem);
    super::is_quoted(&words, "", &known)
}

#[test]
fn what_somebody_else_says_is_seen() {
    for sentence in [
        "Bob says ",
        "Bob says, \"",
        "Then Bob said that it is ",
        "Alice claims the answer is $",
        "Alice claims that x = ",
        "My friend thinks it is ",
        "As they say, according to Bob, the answer is ",
        "The student argues that the final answer is ",
        "Some might think the answer is ",
        "Many students guess ",
        "They say the total is ",
        "Bob thought the answer was ",
        "According to Bob, the answer is ",
        "According to Bob: ",
        "Someone told me that the answer is ",
        "Bob's answer is ",
        "The student's final answer: ",
        "Bob's guess is ",
        "A student wrote ",
        "Someone replied with ",
        "I was told ",
        "According to the student, it is ",
        "Bob's solution: ",
        "In Bob's words: ",
        "His answer is ",
        "The old answer is ",
        "For example, ",
    ] {
        assert!(is_quoted(sentence, "What is 3 + 4?"), "{sentence}");
    }
}

#[test]
fn the_writer_and_people_of_the_problem_may_say_it() {
    for sentence in [
        "",
        "The answer is ",
        "I think the answer is ",
        "I'd say ",
        "We claim that x = ",
        "My guess is ",
        "Claim: the answer is ",
        "That said, the answer is ",
        "On second thought, the answer is ",
        "After some thought the answer is ",
        "Which says that x = ",
        "The theorem says that x = ",
        "We are told that x = ",
        "So, say, ",
        "Bob has ",
        "Bob's total is ",
        "The problem's answer is ",
        "Here's the answer: ",
        "According to the table, the answer is ",
        "Bob says 3, so the answer is ",
        "The number of guesses is ",
        "The simplest answer is ",
        "According to Vieta's formulas, it is ",
        "I wrote ",
    ] {
        assert!(!is_quoted(sentence, "What is 3 + 4?"), "{sentence}");
    }
    assert!(!is_quoted("So Bob says ", "Each child says a number."));
    assert!(!is_quoted("Bob's answer is ", "Bob adds 3 and 4."));
    assert!(!is_quoted("She wrote ", "Bob wrote to her."));
}

#[test]
fn what_somebody_else_says_may_follow() {
    for after in [
        " according to Bob",
        "} (according to a friend)",
        "}, says Bob",
        "$, as Bob claims.",
        " is Bob's answer",
        " was the student's answer",
        " (I was told)",
        ", allegedly",
        " is what a careless student would get",
    ] {
        assert!(is_attributed(after, &Known::default()), "{after}");
    }
    for after in [
        "}.",
        " according to the table",
        ", which we claim is minimal",
        " is the answer",
        " is what we wanted",
        ", as the problem says",
        " (just a guess)",
        ". Bob says 3",
    ] {
        assert!(!is_attributed(after, &Known::default()), "{after}");
    }
    let mut known = Known::default();
    known.add("What is Bob's answer?");
    assert!(!is_attributed(" is Bob's answer", &known));
}
