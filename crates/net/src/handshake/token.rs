//! The token that the nodes of a pool share, and the proofs that a node has it.
//!
//! A proof is a keyed BLAKE3 hash over the role of its maker and the introductions of both sides,
//! with their random numbers. The token is never sent. A proof of another handshake has other
//! random numbers, and one of our own has our role, so neither can be used against us.

use std::fmt;

/// Bytes of a token: fewer could be guessed from a recorded handshake.
pub const TOKEN_BYTES_MIN: usize = 16;

/// Bytes of a token.
pub const TOKEN_BYTES_MAX: usize = 1024;

/// Bytes of a proof.
pub const PROOF_BYTES: usize = 32;

/// What the key is derived for; another use of the same token gets another key.
const CONTEXT: &str = "plasmon pool 2026-11-25 lane handshake 1";

/// What the key is derived for that two sides of an encrypted lane agree on.
const AGREED_CONTEXT: &str = "plasmon pool 2026-11-27 bulk lanes of an encrypted control lane 1";

/// The side that makes a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// The side that connected.
    Connector = 1,
    /// The side that accepted.
    Acceptor = 2,
}

/// The key that the nodes of a pool share.
#[derive(Clone)]
pub struct Token {
    key: [u8; blake3::KEY_LEN],
}

impl Token {
    /// The token of these secret bytes; `None` when they are too few or too many.
    pub fn new(secret: &[u8]) -> Option<Self> {
        let fits = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&secret.len());
        fits.then(|| Self { key: blake3::derive_key(CONTEXT, secret) })
    }

    /// The proof of a side in the handshake with these introductions.
    pub fn proof(&self, role: Role, transcript: &Transcript) -> [u8; PROOF_BYTES] {
        *self.hash(role, transcript).as_bytes()
    }

    /// Whether this is the proof, in a time that does not depend on how much of it is right.
    pub fn is_proof(&self, role: Role, transcript: &Transcript, proof: &[u8]) -> bool {
        let found = <[u8; PROOF_BYTES]>::try_from(proof).map(blake3::Hash::from_bytes);
        // The equality of hashes is computed in constant time.
        found.is_ok_and(|found| found == self.hash(role, transcript))
    }

    fn hash(&self, role: Role, transcript: &Transcript) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&[role as u8]);
        for part in [&transcript.hello, &transcript.challenge] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.finalize()
    }
}

/// Tokens are equal when the same secret made them; computed in constant time.
impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        blake3::Hash::from_bytes(self.key) == blake3::Hash::from_bytes(other.key)
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The introductions of a handshake, as they were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    /// What the connecting side said.
    pub hello: Vec<u8>,
    /// What the accepting side said.
    pub challenge: Vec<u8>,
}

impl Transcript {
    /// What only the two sides know, where nothing between them could read the introductions: both
    /// have drawn 32 random bytes of it.
    pub(super) fn agreed_token(&self) -> Token {
        let mut hasher = blake3::Hasher::new_derive_key(AGREED_CONTEXT);
        for part in [&self.hello, &self.challenge] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Token { key: *hasher.finalize().as_bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(hello: &[u8], challenge: &[u8]) -> Transcript {
        Transcript { hello: hello.to_vec(), challenge: challenge.to_vec() }
    }

    #[test]
    fn a_proof_is_for_one_token_role_and_transcript() {
        let token = Token::new(&[1; 32]).unwrap();
        let said = transcript(b"ab", b"cd");
        let proof = token.proof(Role::Connector, &said);
        assert!(token.is_proof(Role::Connector, &said, &proof));
        assert!(!token.is_proof(Role::Acceptor, &said, &proof));
        assert!(!token.is_proof(Role::Connector, &transcript(b"abc", b"d"), &proof));
        assert!(!Token::new(&[2; 32]).unwrap().is_proof(Role::Connector, &said, &proof));
        for wrong in [&proof[..31], &[0; 32], b"", &[&proof[..], &[0]].concat()] {
            assert!(!token.is_proof(Role::Connector, &said, wrong));
        }
    }

    #[test]
    fn proofs_do_not_change() {
        let token = Token::new(&[1; 32]).unwrap();
        let proof = token.proof(Role::Acceptor, &transcript(b"hello", b"challenge"));
        assert_eq!(proof[..8], [193, 238, 99, 90, 50, 202, 76, 73]);
    }

    #[test]
    fn tokens_are_taken_at_their_limits_and_refused_past_them() {
        for (bytes, taken) in [(15, false), (16, true), (1024, true), (1025, false)] {
            assert_eq!(Token::new(&vec![7; bytes]).is_some(), taken, "{bytes} bytes");
        }
        assert_eq!(format!("{:?}", Token::new(&[7; 16])), "Some(Token(..))");
    }
}
