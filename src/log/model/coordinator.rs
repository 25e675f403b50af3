//! The transaction coordinator: which producer owns a transactional id, and what its transaction waits for.

use std::collections::{BTreeMap, BTreeSet};

use super::{Code, partition::Producer};

/// A partition by the name of its topic. Transactions know topics by name, so they outlive the re-creation of one.
pub(super) type Place = (String, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    Ongoing {
        since_ms: i64,
    },
    /// Decided; markers are still to be written.
    Prepared {
        commit: bool,
    },
    Complete {
        commit: bool,
    },
}

#[derive(Debug, Clone)]
struct Transaction {
    producer: Producer,
    timeout_ms: i64,
    state: State,
    /// What the transaction writes to; once it is decided, where its marker is missing.
    places: BTreeSet<Place>,
}

/// A marker that is decided and not yet written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) transactional_id: String,
    pub(super) place: Place,
    pub(super) producer: Producer,
    pub(super) commit: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Coordinator {
    transactions: BTreeMap<String, Transaction>,
    next_producer_id: i64,
}

impl Coordinator {
    /// `InitProducerId` without a producer of one's own: fences whoever had the id. While a transaction is being ended, and
    /// where this call has to end one, the answer is to ask again.
    pub(super) fn init(&mut self, transactional_id: &str, timeout_ms: i64) -> Result<Producer, Code> {
        let fresh = Producer { id: self.next_producer_id, epoch: 0 };
        let Some(transaction) = self.transactions.get_mut(transactional_id) else {
            self.next_producer_id += 1;
            let transaction = Transaction { producer: fresh, timeout_ms, state: State::Empty, places: BTreeSet::new() };
            self.transactions.insert(transactional_id.to_owned(), transaction);
            return Ok(fresh);
        };
        match transaction.state {
            State::Ongoing { .. } => {
                transaction.abort_and_fence();
                Err(Code::ConcurrentTransactions)
            }
            State::Prepared { .. } => Err(Code::ConcurrentTransactions),
            State::Empty | State::Complete { .. } => {
                // The last epoch is kept free for the abort that a fence makes.
                if transaction.producer.epoch >= i16::MAX - 1 {
                    transaction.producer = fresh;
                    self.next_producer_id += 1;
                } else {
                    transaction.producer.epoch += 1;
                }
                transaction.timeout_ms = timeout_ms;
                transaction.state = State::Empty;
                Ok(transaction.producer)
            }
        }
    }

    fn owned(&mut self, transactional_id: &str, producer: Producer) -> Result<&mut Transaction, Code> {
        let transaction = self.transactions.get_mut(transactional_id).ok_or(Code::InvalidProducerIdMapping)?;
        if transaction.producer.id != producer.id {
            return Err(Code::InvalidProducerIdMapping);
        }
        if transaction.producer.epoch != producer.epoch {
            return Err(Code::InvalidProducerEpoch);
        }
        Ok(transaction)
    }

    /// `AddPartitionsToTxn`: begins the transaction with its first partition.
    pub(super) fn add(
        &mut self,
        transactional_id: &str,
        producer: Producer,
        place: Place,
        now_ms: i64,
    ) -> Result<(), Code> {
        let transaction = self.owned(transactional_id, producer)?;
        match transaction.state {
            State::Prepared { .. } => return Err(Code::ConcurrentTransactions),
            State::Ongoing { .. } => {}
            State::Empty | State::Complete { .. } => transaction.state = State::Ongoing { since_ms: now_ms },
        }
        transaction.places.insert(place);
        Ok(())
    }

    /// KIP-890: a partition that has nothing of the transaction yet asks whether there is one.
    pub(super) fn verify(&mut self, transactional_id: &str, producer: Producer, place: &Place) -> Result<(), Code> {
        let transaction = self.owned(transactional_id, producer)?;
        match transaction.state {
            State::Ongoing { .. } if transaction.places.contains(place) => Ok(()),
            State::Prepared { .. } => Err(Code::ConcurrentTransactions),
            _ => Err(Code::InvalidTxnState),
        }
    }

    /// `EndTxn`. Asked again after it took effect it answers the same.
    pub(super) fn end(&mut self, transactional_id: &str, producer: Producer, commit: bool) -> Result<(), Code> {
        let transaction = self.owned(transactional_id, producer)?;
        match transaction.state {
            State::Ongoing { .. } => {
                transaction.state = State::Prepared { commit };
                Ok(())
            }
            State::Prepared { commit: decided } if decided == commit => Err(Code::ConcurrentTransactions),
            State::Complete { commit: decided } if decided == commit => Ok(()),
            State::Empty | State::Prepared { .. } | State::Complete { .. } => Err(Code::InvalidTxnState),
        }
    }

    /// Aborts, with a new epoch, what has been open for longer than its timeout.
    pub(super) fn time_out(&mut self, now_ms: i64) {
        for transaction in self.transactions.values_mut() {
            if let State::Ongoing { since_ms } = transaction.state
                && now_ms > since_ms + transaction.timeout_ms
            {
                transaction.abort_and_fence();
            }
        }
    }

    /// What is to be written, in the order of transactional ids and places.
    pub(super) fn markers(&self) -> Vec<Marker> {
        let mut markers = Vec::new();
        for (id, transaction) in &self.transactions {
            let State::Prepared { commit } = transaction.state else { continue };
            let marker = |place: &Place| Marker {
                transactional_id: id.clone(),
                place: place.clone(),
                producer: transaction.producer,
                commit,
            };
            markers.extend(transaction.places.iter().map(marker));
        }
        markers
    }

    /// A marker was written, or its partition is gone. With the last one the transaction is complete.
    pub(super) fn marked(&mut self, marker: &Marker) {
        let Some(transaction) = self.transactions.get_mut(&marker.transactional_id) else { return };
        if let State::Prepared { commit } = transaction.state {
            transaction.places.remove(&marker.place);
            if transaction.places.is_empty() {
                transaction.state = State::Complete { commit };
            }
        }
    }
}

impl Transaction {
    /// The marker carries the new epoch, so that the partitions refuse the old producer too.
    fn abort_and_fence(&mut self) {
        self.producer.epoch += 1;
        self.state = State::Prepared { commit: false };
    }
}
