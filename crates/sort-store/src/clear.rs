//! Deleting what a sort has made that did not end well.

use std::time::Duration;

use plasmon_client::{Client, Code, Deadline, ObjectId};

use crate::error::Left;

/// For how long the store may take to notice that a process has ended.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest that one wait for that takes.
const STEP: Duration = Duration::from_millis(200);

/// Deletes objects that this process made, or one that has ended. What such a process was creating
/// is its own until the store has read the last of what it said, which may be that the object is
/// sealed. Objects that are not there are no error.
pub fn delete_made(store: &Client, ids: &[ObjectId]) -> Result<(), Left> {
    let mut delete = |ids: &[ObjectId]| store.delete(ids);
    // Ends as soon as one of them is sealed or its creator is gone.
    let mut wait = |ids: &[ObjectId], timeout| store.wait(ids, 1, Some(timeout)).map(drop);
    clear(ids, PATIENCE, &mut delete, &mut wait)
}

type Delete<'a> = dyn FnMut(&[ObjectId]) -> plasmon_client::Result<Vec<Option<Code>>> + 'a;
type Wait<'a> = dyn FnMut(&[ObjectId], Duration) -> plasmon_client::Result<()> + 'a;

/// Deletes until nothing is left, or nothing more can be done.
fn clear(
    ids: &[ObjectId],
    patience: Duration,
    delete: &mut Delete<'_>,
    wait: &mut Wait<'_>,
) -> Result<(), Left> {
    let end = Deadline::after(patience);
    let (mut left, mut refused): (Vec<ObjectId>, Vec<(ObjectId, Code)>) = (ids.to_vec(), vec![]);
    while !left.is_empty() {
        let outcomes = delete(&left)?;
        let mut owned = Vec::new();
        for (id, code) in left.iter().zip(outcomes) {
            match code {
                None | Some(Code::Absent | Code::Deleted | Code::Evicted | Code::CreatorDied) => {}
                Some(Code::NotOwner) => owned.push(*id),
                Some(code) => refused.push((*id, code)),
            }
        }
        left = owned;
        if end.is_past() {
            refused.extend(left.drain(..).map(|id| (id, Code::NotOwner)));
        } else if !left.is_empty() {
            wait(&left, end.left().map_or(STEP, |rest| rest.min(STEP)))?;
        }
    }
    match refused.first() {
        None => Ok(()),
        Some((_, code)) => {
            let code = *code;
            Err(Left::Refused { ids: refused.into_iter().map(|(id, _)| id).collect(), code })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn ids(count: u8) -> Vec<ObjectId> {
        (0..count).map(|at| ObjectId::new([at; 20])).collect()
    }

    /// Answers one deletion after the other; says how often was waited, and for what.
    fn cleared(
        answers: Vec<Vec<Option<Code>>>,
        patience: Duration,
    ) -> (Result<(), Left>, Vec<Vec<ObjectId>>) {
        let (mut answers, mut waits) = (answers.into_iter(), Vec::new());
        let outcome = clear(
            &ids(3),
            patience,
            &mut |_| Ok(answers.next().expect("one more deletion than was expected")),
            &mut |ids, _| {
                waits.push(ids.to_vec());
                Ok(())
            },
        );
        (outcome, waits)
    }

    #[test]
    fn what_is_gone_or_never_was_is_no_error() {
        let answers = vec![vec![None, Some(Code::Absent), Some(Code::CreatorDied)]];
        let (outcome, waits) = cleared(answers, LONG);
        assert!(outcome.is_ok() && waits.is_empty());
    }

    /// The command slept 50 ms between two tries, whatever happened in the store meanwhile.
    #[test]
    fn an_object_that_is_being_created_is_waited_for() {
        let answers =
            vec![vec![Some(Code::NotOwner), None, Some(Code::NotOwner)], vec![None, None]];
        let (outcome, waits) = cleared(answers, LONG);
        assert!(outcome.is_ok());
        assert_eq!(waits, [vec![ids(3)[0], ids(3)[2]]]);
    }

    /// The command said that all was well when objects stayed after ten seconds.
    #[test]
    fn what_stays_after_the_time_is_told() {
        let answers = vec![vec![None, Some(Code::NotOwner), None]];
        let (outcome, _) = cleared(answers, Duration::ZERO);
        let Err(Left::Refused { ids: left, code: Code::NotOwner }) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(left, [ids(3)[1]]);
    }

    /// The command dropped every other code; Python gave up at the first and left the rest.
    #[test]
    fn another_refusal_is_told_and_the_rest_is_deleted_all_the_same() {
        let answers = vec![vec![Some(Code::NotPermitted), Some(Code::NotOwner), None], vec![None]];
        let (outcome, waits) = cleared(answers, LONG);
        assert_eq!(waits, [vec![ids(3)[1]]]);
        let Err(Left::Refused { ids: left, code: Code::NotPermitted }) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(left, [ids(3)[0]]);
    }

    #[test]
    fn a_store_that_does_not_answer_ends_it() {
        let gone = || plasmon_client::Error::new(Code::Disconnected, "deleting objects");
        let outcome = clear(&ids(1), LONG, &mut |_| Err(gone()), &mut |_, _| Ok(()));
        assert!(matches!(outcome, Err(Left::Unknown(_))), "{outcome:?}");
        assert!(clear(&[], LONG, &mut |_| Err(gone()), &mut |_, _| Ok(())).is_ok());
    }
}
