//! The mailbox, see [`crate::base::mailbox`]. Of several threads that serve it, one takes a letter,
//! and it takes the whole letter. The tool reads the whole answer.

use std::sync::Arc;

use super::{explore, race};
use crate::base::mailbox::{Letter, Mailbox};
use crate::base::sync::{AtomicU32, Ordering};

#[test]
fn one_thread_takes_a_letter_and_the_answer_is_whole() {
    explore(|| {
        let mailbox = Arc::new(Mailbox::new());
        let worked = Arc::new(AtomicU32::new(0));
        let serve = |mailbox: &Mailbox, worked: &AtomicU32| {
            mailbox.serve(|letter| {
                assert_eq!((letter.number, letter.code), (9, 4));
                worked.fetch_add(1, Ordering::Relaxed);
                Letter::new(0, 40)
            });
        };
        let [one, other] = [(mailbox.clone(), worked.clone()), (mailbox.clone(), worked.clone())];
        let look = |mailbox: &Mailbox| {
            mailbox.answer().map(|words| {
                let answer = Letter::from_words(&words).expect("a whole answer");
                assert_eq!((answer.number, answer.code), (9, 40));
            })
        };
        let ((), (), _) = race(
            move || serve(&one.0, &one.1),
            move || serve(&other.0, &other.1),
            || {
                mailbox.ask(&Letter::new(9, 4).to_words());
                look(&mailbox)
            },
        );
        serve(&mailbox, &worked);
        look(&mailbox).expect("an answer");
        assert_eq!(worked.load(Ordering::Relaxed), 1, "threads at work");
    });
}

#[test]
fn a_letter_over_another_is_taken_whole_or_not_at_all() {
    explore(|| {
        let mailbox = Arc::new(Mailbox::new());
        let [one, other] = [mailbox.clone(), mailbox.clone()];
        race(
            move || one.ask(&Letter::new(9, 4).to_words()),
            move || {
                other.serve(|letter| {
                    assert!([(9, 4), (11, 5)].contains(&(letter.number, letter.code)), "{letter:?}");
                    Letter::new(0, 40)
                });
            },
            || mailbox.ask(&Letter::new(11, 5).to_words()),
        );
    });
}
