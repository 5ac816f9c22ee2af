//! Where a simulated world may step in: between two steps, with a refusal, or by a broken rule.

/// A place between two steps where other processes may come in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The daemon has published, hidden, shown or removed objects in the index.
    Index,
    /// The daemon is about to look for pins in the ledgers.
    Pins,
    /// The daemon is between two effects of the store, or between two records of a ring.
    Effect,
    /// The keeper was told something.
    Keeper,
    /// A worker is about to do a job, or has done it.
    Job,
    /// A reader has claimed a pin and not yet made sure of it.
    Claim,
    /// A client has submitted records.
    Submit,
    /// A process is about to wait for something.
    Wait,
}

/// Something that the kernel may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Allocating memory.
    Reserve,
    /// Putting a completion into a client's ring.
    Complete,
    /// Reading or writing a file of the spill tier.
    Disk,
}

/// A rule that a build for the simulator can break, to see that the simulator notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// Pins are counted before objects are hidden.
    SkipFence,
    /// A client keeps its mappings although completions from the daemon were lost.
    KeepStaleMapping,
    /// A session is forgotten when its connection ends, although its process lives.
    ForgetDetached,
    /// Pages that the store wants given back are kept.
    DropWithoutPunch,
    /// Questions are answered before the rings are drained.
    AnswerBeforeDraining,
    /// A restarted daemon does not look into the rings of its predecessor's clients.
    AdoptWithoutReplay,
    /// A ring's head moves before its records are applied.
    AckBeforePublish,
    /// The keeper is not told of new extents.
    HoldNothing,
    /// The end of a process is not noticed.
    IgnoreDeath,
    /// A client that resumes does not say what is leased to it.
    ResumeWithoutLeases,
    /// Lost completions are not counted.
    LoseSilently,
    /// A client takes a refusal for consent.
    IgnoreRefusal,
    /// A client that idles keeps what is gone mapped.
    SleepOn,
}
