//! Puts: objects that a client wrote into memory leased to it. This is the hot path of the daemon.

use plasmon_proto::extent::Range;
use plasmon_proto::object::ObjectMeta;
use plasmon_proto::ring::Put;
use plasmon_proto::{Attributes, Code};

use crate::construction::Stage;
use crate::event::ClientNo;
use crate::extras::Extras;
use crate::memory::LeaseError;
use crate::objects::NewObject;
use crate::ports::Directory;
use crate::store::Store;

/// What a put completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PriorClaim {
    /// Nothing: the object is new.
    No,
    /// An announcement.
    Bare,
    /// An object whose memory was taken out of the leases of this session already, because the
    /// client named it when it came back after a restart of the daemon.
    WithMemory(u32),
}

impl<D: Directory> Store<D> {
    pub(crate) fn put(
        &mut self,
        client: ClientNo,
        put: Put,
        attributes: Option<Attributes>,
    ) -> Result<(), Code> {
        let range = put.range().ok_or(Code::BadRequest)?;
        if put.id.is_pooled()
            && let Err(code) = self.check_pooled_put(&put)
        {
            self.return_lease(client, range)?;
            return Err(code);
        }
        if let Some(entry) = self.objects.find(&put.id) {
            // The same record twice: the daemon died between applying it and saying so.
            if entry.range == range && entry.meta.sizes == put.sizes {
                return Ok(());
            }
            self.return_lease(client, range)?;
            return Err(Code::Exists);
        }
        let announced = match self.announced_by(client, &put, range) {
            Ok(announced) => announced,
            Err(code) => {
                self.return_lease(client, range)?;
                return Err(code);
            }
        };
        let owner = match announced {
            PriorClaim::WithMemory(session) => session,
            _ => self.carve(client, range)?,
        };
        let checked = match attributes {
            Some(plain) if plain.is_empty() => Ok(plain),
            // A ring cannot say that it is in the log.
            Some(it) if it.durable => Err(Code::Unsupported),
            Some(it) if it.check().is_ok() => self
                .objects
                .check_members(&it)
                .and_then(|()| self.sessions.check_name(&put.id, &it, &put.sizes))
                .and_then(|()| self.check_pooled(&put.id, &it))
                .map(|()| it),
            _ => Err(Code::BadRequest),
        };
        if announced != PriorClaim::No {
            self.end_creating(&put.id);
        }
        match checked {
            Ok(attributes) => {
                self.publish_put(put, range, owner, attributes);
                if put.id.is_pooled() {
                    self.commit_homed(&put.id);
                }
            }
            Err(code) => {
                self.sessions.clients.uncharge(owner, range.bytes);
                self.space.memory.release(range, range.bytes, &mut self.out);
                return Err(code);
            }
        }
        Ok(())
    }

    fn publish_put(&mut self, put: Put, range: Range, owner: u32, attributes: Attributes) {
        let serial = self.serial();
        let extras = (!attributes.is_empty()).then(|| {
            let expires_ms = attributes.ttl_ms.map(|ttl_ms| self.now_ms.saturating_add(ttl_ms));
            Box::new(Extras { attributes: attributes.clone(), expires_ms, ..Extras::default() })
        });
        self.publish(NewObject {
            id: put.id,
            serial,
            range,
            meta: ObjectMeta {
                sizes: put.sizes,
                traits: put.traits,
                created_ms: self.now_ms,
                construct_ms: 0,
            },
            owner,
            extras,
            visible: true,
        });
        self.announce_sealed(put.id, put.sizes, &attributes);
    }

    /// Whether a pooled object may be put through a ring: one with a free id is seen only after the
    /// pool has accepted it, which a ring cannot say.
    fn check_pooled_put(&self, put: &Put) -> Result<(), Code> {
        if put.id.home().is_none() {
            return Err(Code::Unsupported);
        }
        self.check_maker(&put.id, &put.sizes, put.traits).map_err(|failure| failure.code)?;
        if self.seat.withheld(&put.id).is_some() { Err(Code::Exists) } else { Ok(()) }
    }

    /// What the client said of this id before, or why it cannot put it.
    fn announced_by(&self, client: ClientNo, put: &Put, range: Range) -> Result<PriorClaim, Code> {
        if !self.objects.pending_objects.is_empty()
            && let Some(creating) = self.objects.pending_objects.get(&put.id)
        {
            return match creating.stage {
                _ if !self.sessions.is_creator(client, creating) => Err(Code::Exists),
                Stage::Announced => Ok(PriorClaim::Bare),
                // A strict object is published only by its seal, and so is one that grows: its
                // writer could still change the size of its extent under a reader.
                Stage::Writing(known)
                    if known == range
                        && creating.sizes == put.sizes
                        && !creating.strict
                        && creating.growing.is_none() =>
                {
                    Ok(PriorClaim::WithMemory(creating.owner))
                }
                _ => Err(Code::Exists),
            };
        }
        if self.objects.tier.get(&put.id).is_some() || self.objects.durable.is_replacing(&put.id) {
            Err(Code::Exists)
        } else {
            Ok(PriorClaim::No)
        }
    }

    /// Takes an object's memory out of the client's leases. Returns the client's session.
    pub(crate) fn carve(&mut self, client: ClientNo, range: Range) -> Result<u32, Code> {
        let found = self.sessions.clients.get_mut(client).ok_or(Code::BadRequest)?;
        match found.leases.carve(range) {
            Ok(()) => Ok(found.session),
            Err(LeaseError::NotLeased) => Err(Code::BadRequest),
            Err(LeaseError::TooManyPieces) => {
                self.expel(client, "its leases are in too many pieces");
                Err(Code::LimitReached)
            }
        }
    }

    /// Frees memory that was leased to the client.
    pub(crate) fn return_lease(&mut self, client: ClientNo, range: Range) -> Result<(), Code> {
        let hull = |store: &Self| {
            store.sessions.clients.get(client).map(|it| it.leases.hull(range.extent))
        };
        let before = hull(self);
        let owner = self.carve(client, range)?;
        self.sessions.clients.uncharge(owner, range.bytes);
        if hull(self) != before {
            self.say_lent(client, range.extent);
        }
        self.space.memory.release(range, range.bytes, &mut self.out);
        Ok(())
    }
}
