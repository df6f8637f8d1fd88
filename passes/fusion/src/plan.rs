//! Which operators share a kernel.
//!
//! A kernel of a family that takes an epilogue goes on with the pointwise operators that follow on a value of the same shape, and a product
//! writes its result in the parts and orders that slices and transposes behind it want (`movement`). A reduction begins with the pointwise and
//! moving operators that only it needs. Of what is left, an operator that computes each element by itself takes in what only it needs, where no
//! element is computed twice for that: pointwise operators of the same shape, and pooling, depthwise convolution, gather and resize; through
//! transposes, slices, pads, concatenations and reshapes too; or the parts of a concatenation are written where they lie (`concatenation`). Every
//! value computed inside, but the results, is used inside only, so that no value from outside that a kernel needs can depend on that kernel.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tenon_graph_dialect::operators::PadMode;
use tenon_graph_dialect::{Operator, SemanticError, TensorType};
use tenon_ir::{Block, Op, Value};

use crate::family::{Family, is_pointwise};

/// Most operators of one kernel.
pub(crate) const MAX_MEMBERS: usize = 64;
/// Elements of a result that a kernel computes in less time than a launch takes.
pub(crate) const SMALL: u64 = 1 << 16;
/// Most operands of an operator that joins a kernel of others: each is a pointer.
const MAX_OPERANDS: usize = 16;
/// Most results of one kernel.
const MAX_OUTPUTS: usize = 8;
/// Longest row that a block keeps in registers; what is before a reduction of a longer one would be computed again for each pass over it.
pub(crate) const MAX_ROW: u64 = 2048;

/// A kernel to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) family: Family,
    /// Places in the block, ascending.
    pub(crate) members: Vec<usize>,
    /// The members whose results are the kernel's, ascending.
    pub(crate) outputs: Vec<usize>,
    /// The member in whose place the kernel stands: everything that it needs is before it, everything that needs it behind.
    pub(crate) at: usize,
    /// The concatenations beside kernels that its results are written into.
    pub(crate) wholes: Vec<usize>,
}

/// An operation of the block.
pub(crate) struct Node<'m> {
    pub(crate) op: Op<'m>,
    /// `None`: not an operator.
    pub(crate) operator: Option<Operator>,
    pub(crate) family: Option<Family>,
    pub(crate) results: Vec<TensorType>,
}

/// The operations of a block and what has been decided.
pub(crate) struct Plan<'m, 'f> {
    pub(crate) nodes: Vec<Node<'m>>,
    pub(crate) places: HashMap<usize, usize>,
    pub(crate) taken: Vec<bool>,
    /// Concatenations that need no kernel.
    pub(crate) in_parts: Vec<bool>,
    pub(crate) groups: Vec<Group>,
    /// Lists of nodes that no kernel may hold all of.
    forbidden: &'f [Vec<String>],
}

impl<'m, 'f> Plan<'m, 'f> {
    /// Reads a block and groups it. Groups are in order of their last members. No group holds operators of all nodes of a list of
    /// `forbidden`.
    pub(crate) fn of(
        block: Block<'m>,
        forbidden: &'f [Vec<String>],
    ) -> Result<(Vec<Node<'m>>, Vec<Group>), SemanticError> {
        let mut nodes = Vec::new();
        let mut places = HashMap::new();
        for (place, op) in block.ops().into_iter().enumerate() {
            places.insert(op.key(), place);
            let read = |values: Vec<Value<'m>>| {
                values.into_iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()
            };
            nodes.push(match Operator::read(op).transpose()? {
                Some(operator) => {
                    let family = Family::of(&operator, &read(op.operands())?);
                    Node { op, operator: Some(operator), family, results: read(op.results())? }
                }
                None => Node { op, operator: None, family: None, results: Vec::new() },
            });
        }
        let taken = vec![false; nodes.len()];
        let in_parts = taken.clone();
        let mut plan = Plan { nodes, places, taken, in_parts, groups: Vec::new(), forbidden };
        for place in 0..plan.nodes.len() {
            if plan.nodes[place].family.is_some_and(Family::takes_epilogue) {
                let mut members = plan.with_epilogue(place);
                let at = members.last().copied().unwrap_or(place);
                let mut outputs = vec![at];
                if plan.writes_moved(place) {
                    (members, outputs) = plan.with_movement(members, at);
                }
                plan.take(members, outputs, at, plan.nodes[place].family);
            }
        }
        plan.write_in_parts();
        for group in 0..plan.groups.len() {
            let Group { family, members, .. } = &plan.groups[group];
            if let (Family::Reduce, Some(anchor)) = (*family, members.first().copied()) {
                let members = plan.with_prologue(members.clone(), anchor);
                members.iter().for_each(|member| plan.taken[*member] = true);
                plan.groups[group].members = members;
            }
        }
        for place in (0..plan.nodes.len()).rev() {
            if !plan.taken[place] && plan.nodes[place].family.is_some() {
                let members = if plan.nodes[place].family == Some(Family::Map) {
                    plan.with_producers(vec![place], place)
                } else {
                    vec![place]
                };
                plan.take(members, vec![place], place, plan.nodes[place].family);
            }
        }
        for group in 0..plan.groups.len() {
            let outputs = plan.groups[group].outputs.iter();
            plan.groups[group].wholes = outputs.flat_map(|output| plan.wholes(*output)).collect();
        }
        let Plan { nodes, mut groups, .. } = plan;
        groups.sort_by_key(|group| group.at);
        Ok((nodes, groups))
    }

    fn take(&mut self, members: Vec<usize>, outputs: Vec<usize>, at: usize, family: Option<Family>) {
        members.iter().for_each(|member| self.taken[*member] = true);
        self.groups.extend(family.map(|family| Group { family, members, outputs, at, wholes: Vec::new() }));
    }

    /// Whether an operator may join others without what a recipe forbids.
    pub(crate) fn may_join(&self, members: &[usize], place: usize) -> bool {
        if self.forbidden.is_empty() {
            return true;
        }
        let names: Vec<String> =
            members.iter().chain([&place]).flat_map(|member| self.nodes[*member].op.location().names()).collect();
        !self.forbidden.iter().any(|list| list.iter().all(|node| names.contains(node)))
    }

    fn is_pointwise(&self, place: usize) -> bool {
        self.nodes[place].operator.as_ref().is_some_and(is_pointwise)
    }

    fn has_shape_of(&self, place: usize, other: usize) -> bool {
        match (self.nodes[place].results.as_slice(), self.nodes[other].results.as_slice()) {
            ([a], [b]) => a.dims == b.dims && a.order == b.order,
            _ => false,
        }
    }

    /// Places of the operations that use a result; one outside the block counts as `usize::MAX`.
    pub(crate) fn users(&self, place: usize) -> Vec<usize> {
        let results = self.nodes[place].op.results().into_iter();
        results
            .flat_map(Value::users)
            .map(|(op, _)| self.places.get(&op.key()).copied().unwrap_or(usize::MAX))
            .collect()
    }

    /// Places of the operations whose results are operands.
    fn producers(&self, place: usize) -> Vec<usize> {
        let operands = self.nodes[place].op.operands().into_iter();
        operands.filter_map(|value| self.places.get(&value.defining_op()?.0.key()).copied()).collect()
    }

    /// An operator with the longest run of pointwise ones behind it that leaves one value: the last one's. Reshapes between them change nothing:
    /// each place keeps its element.
    fn with_epilogue(&self, anchor: usize) -> Vec<usize> {
        let mut members = vec![anchor];
        let mut shapes = vec![anchor];
        let mut complete = 1;
        let mut reach = self.users(anchor).into_iter().filter(|user| *user < self.nodes.len()).max().unwrap_or(anchor);
        let mut place = anchor + 1;
        while place <= reach && members.len() < MAX_MEMBERS {
            let is_reshape = matches!(self.nodes[place].operator, Some(Operator::Reshape(_)))
                && self.nodes[place].results.iter().all(|ty| ty.known_shape().is_some());
            let fits = self.is_pointwise(place) && shapes.iter().any(|shape| self.has_shape_of(place, *shape));
            let joins = !self.taken[place]
                && (fits || is_reshape)
                && self.may_join(&members, place)
                && self.producers(place).iter().any(|producer| members.contains(producer));
            if joins {
                members.push(place);
                if is_reshape {
                    shapes.push(place);
                }
                let users = self.users(place);
                reach = users.iter().copied().filter(|user| *user < self.nodes.len()).fold(reach, usize::max);
                let (_, inner) = members.split_last().expect("the anchor is a member");
                // A reshape at the end is a view of the result, and no part of the kernel.
                if !is_reshape
                    && inner.iter().all(|member| self.users(*member).iter().all(|user| members.contains(user)))
                {
                    complete = members.len();
                }
            }
            place += 1;
        }
        members.truncate(complete);
        members
    }

    /// A reduction with what only it needs before it, where a row is read once.
    fn with_prologue(&self, members: Vec<usize>, anchor: usize) -> Vec<usize> {
        let reads_once = match &self.nodes[anchor].operator {
            Some(Operator::Reduce(_)) => true,
            // These go over a row several times where it does not fit a block's registers.
            Some(operator) => self.row(anchor, operator).is_some_and(|row| row <= MAX_ROW),
            None => false,
        };
        let first =
            self.nodes[anchor].op.operand(0).and_then(|value| self.places.get(&value.defining_op()?.0.key()).copied());
        match first {
            Some(first) if reads_once && self.begins(&members, anchor, first) => {
                let mut members = [&members[..], &[first]].concat();
                let before = self.with_producers(vec![first], first);
                members.extend(before.into_iter().filter(|place| *place != first));
                members.sort_unstable();
                if members.len() <= MAX_MEMBERS && members.iter().all(|member| self.may_join(&members, *member)) {
                    members
                } else {
                    members.into_iter().filter(|member| *member >= anchor).collect()
                }
            }
            _ => members,
        }
    }

    /// Whether a reduction may compute its operand, which nothing else needs.
    fn begins(&self, members: &[usize], anchor: usize, first: usize) -> bool {
        let few = self.nodes[first].op.operand_count() <= MAX_OPERANDS;
        let is_map = self.nodes[first].family == Some(Family::Map);
        few && is_map && !self.taken[first] && self.may_join(members, first) && self.users(first) == [anchor]
    }

    /// Elements of a row of a reduction.
    fn row(&self, anchor: usize, operator: &Operator) -> Option<u64> {
        let axes = match operator {
            Operator::Softmax(softmax) => vec![softmax.axis],
            Operator::Normalize(normalize) => normalize.axes.clone(),
            Operator::ArgReduce(reduce) => vec![reduce.axis],
            _ => return None,
        };
        let ty = TensorType::read(self.nodes[anchor].op.operand(0)?.ty()).ok()?;
        axes.into_iter().try_fold(1u64, |row, axis| {
            let axis = if axis < 0 { axis + ty.rank() as i64 } else { axis };
            row.checked_mul(ty.dims.get(usize::try_from(axis).ok()?)?.capacity?)
        })
    }

    /// Whether the kernel of an operator may write its result in the parts and orders that follow.
    fn writes_moved(&self, place: usize) -> bool {
        match &self.nodes[place].operator {
            Some(Operator::Contract(_)) => true,
            // Groups of few channels are computed element by element.
            Some(Operator::Convolution(convolution)) => convolution.groups == 1,
            _ => false,
        }
    }

    /// Whether an operator only moves the elements of its operands.
    fn moves(&self, place: usize) -> bool {
        self.nodes[place].operator.as_ref().is_some_and(is_movement)
    }

    /// Whether a producer may be computed inside a kernel, where `user` reads it: nothing else needs it, and no element of it is computed twice,
    /// since all that read it read it at the same places (`reading`: by member, a number of the places at which it reads).
    fn joins(&self, reading: &BTreeMap<usize, usize>, user: usize, place: usize) -> bool {
        let users = self.users(place);
        let alike = |other: &usize| {
            let reads = reading.get(other).is_some_and(|places| *places == reading[&user]);
            reads && self.is_pointwise(*other) && self.has_shape_of(place, *other)
        };
        let again = self.is_small(user) && (self.is_cheap(place) || self.is_reshape(place));
        let fits = users.iter().all(alike) || (users == [user] && (self.moves(user) || again));
        fits && self.may_take(reading, place)
    }

    /// Whether an operator may be computed inside a kernel, wherever it is read there.
    fn may_take(&self, reading: &BTreeMap<usize, usize>, place: usize) -> bool {
        let few = self.nodes[place].op.operand_count() <= MAX_OPERANDS;
        let members: Vec<usize> = reading.keys().copied().collect();
        // Every place of a concatenation computes an element of each of its operands.
        let again =
            members.iter().any(|member| self.is_concat(*member)) && (self.is_heavy(place) || self.keeps_more(place));
        few && !again
            && !self.taken[place]
            && !reading.contains_key(&place)
            && reading.len() < MAX_MEMBERS
            && self.may_join(&members, place)
    }

    /// Whether an operator that may read an element of its operand several times is over before a launch of another kernel would be.
    fn is_small(&self, place: usize) -> bool {
        let reads = matches!(self.nodes[place].operator, Some(Operator::Gather(_) | Operator::Broadcast(_)));
        let count = self.nodes[place].results.iter().map(|ty| ty.element_capacity().unwrap_or(u64::MAX)).max();
        (reads || self.is_pointwise(place)) && count.is_some_and(|count| count <= SMALL)
    }

    /// Whether an element of it is one of its operand's: taking it again costs a load that the cache has.
    fn is_load(&self, place: usize) -> bool {
        let loads =
            matches!(self.nodes[place].operator, Some(Operator::Slice(_) | Operator::Transpose(_) | Operator::Cast(_)));
        loads && self.nodes[place].family == Some(Family::Map)
    }

    /// Whether computing an element of it again costs little more than loading it.
    fn is_cheap(&self, place: usize) -> bool {
        let single = matches!(
            self.nodes[place].operator,
            Some(Operator::Gather(_) | Operator::Slice(_) | Operator::Transpose(_))
        );
        single || self.is_pointwise(place)
    }

    fn is_reshape(&self, place: usize) -> bool {
        matches!(self.nodes[place].operator, Some(Operator::Reshape(_)))
    }

    /// Where an operator reads that is evaluated where `user` reads.
    fn places_of(&self, reading: &BTreeMap<usize, usize>, user: usize, place: usize) -> usize {
        // The operands of a concatenation are read at different places.
        let moves = self.moves(user) && !self.is_concat(user);
        let same = moves || (self.is_pointwise(user) && self.has_shape_of(place, user));
        if self.is_pointwise(place) && same { reading[&user] } else { place }
    }

    /// A kernel that goes back from `root` over what only it needs.
    fn with_producers(&self, members: Vec<usize>, root: usize) -> Vec<usize> {
        let mut reading: BTreeMap<usize, usize> = members.iter().map(|member| (*member, *member)).collect();
        // An operator is looked at once for each user that has joined, and so also after the last one has.
        let mut candidates: Vec<(usize, usize)> = self.producers(root).into_iter().map(|place| (root, place)).collect();
        // What is loaded for several places: what it reads is in memory, or only loaded too.
        let mut loaded = BTreeSet::new();
        while let Some((user, place)) = candidates.pop() {
            if loaded.contains(&user) && !self.is_load(place) {
                continue;
            }
            let again = self.is_load(place) && self.users(place).iter().all(|other| reading.contains_key(other));
            let joins = self.joins(&reading, user, place) || (again && self.may_take(&reading, place));
            if joins && (loaded.contains(&user) || (again && self.users(place).len() > 1)) {
                loaded.insert(place);
            }
            if joins && self.nodes[place].family == Some(Family::Map) {
                reading.insert(place, self.places_of(&reading, user, place));
                candidates.extend(self.producers(place).into_iter().map(|producer| (place, producer)));
                continue;
            }
            // A reshape is no kernel; it joins with what is behind it, which may be read several times too.
            let [producer] = self.producers(place)[..] else { continue };
            let once = self.moves(user) || (self.is_pointwise(user) && self.has_shape_of(place, user));
            if joins && self.is_reshape(place) && (once || self.is_cheap(producer)) {
                let mut with = reading.clone();
                with.insert(place, place);
                if self.joins(&with, place, producer) && self.nodes[producer].family == Some(Family::Map) {
                    with.insert(producer, self.places_of(&with, place, producer));
                    reading = with;
                    candidates.extend(self.producers(producer).into_iter().map(|before| (producer, before)));
                }
            }
        }
        reading.into_keys().collect()
    }

    /// A contraction with the slices and transposes of its value: the kernel writes what they give.
    fn with_movement(&self, members: Vec<usize>, last: usize) -> (Vec<usize>, Vec<usize>) {
        let moving = self.movement(last, &members);
        let mut all = [members.clone(), moving].concat();
        all.sort_unstable();
        let is_output = |place: &usize| self.users(*place).iter().any(|user| !all.contains(user));
        let outputs: Vec<usize> = all.iter().copied().filter(is_output).collect();
        let count = |place: usize| {
            let results = self.nodes[place].results.iter();
            results.map(|ty| ty.element_capacity().unwrap_or(u64::MAX)).fold(0u64, u64::saturating_add)
        };
        let written = outputs.iter().map(|place| count(*place)).fold(0u64, u64::saturating_add);
        let plain = outputs.is_empty() || outputs == [last];
        if plain || outputs.len() > MAX_OUTPUTS || written > count(last).saturating_mul(2) || all.len() > MAX_MEMBERS {
            return (members, vec![last]);
        }
        (all, outputs)
    }

    /// Slices and transposes of a value, and reshapes between them, as far as all of a chain may join.
    fn movement(&self, place: usize, members: &[usize]) -> Vec<usize> {
        let mut found = Vec::new();
        let mut users = self.users(place);
        users.sort_unstable();
        users.dedup();
        for user in users.into_iter().filter(|user| *user < self.nodes.len() && !self.taken[*user]) {
            let fixed = self.nodes[user].results.iter().all(|ty| ty.known_shape().is_some());
            let joins = fixed && self.may_join(members, user);
            match &self.nodes[user].operator {
                Some(Operator::Transpose(_)) if joins => {
                    found.push(user);
                    found.extend(self.movement(user, members));
                }
                Some(Operator::Slice(slice)) if joins && slice.steps.iter().all(|step| *step == 1) => {
                    found.push(user);
                    found.extend(self.movement(user, members));
                }
                Some(Operator::Reshape(_)) if joins => {
                    let behind = self.movement(user, members);
                    if !behind.is_empty() {
                        found.push(user);
                        found.extend(behind);
                    }
                }
                _ => {}
            }
        }
        found
    }
}

/// Whether every element of the result is one of the operands', each taken at most once.
pub(crate) fn is_movement(operator: &Operator) -> bool {
    match operator {
        Operator::Transpose(_) | Operator::Slice(_) | Operator::Reshape(_) | Operator::Concat(_) => true,
        Operator::Pad(pad) => pad.mode == PadMode::Constant,
        _ => false,
    }
}
