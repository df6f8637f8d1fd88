//! Extraction over the DAG: of every class one choice, so that what the roots need costs least, each class counted once.
//!
//! Finding the best is NP-hard. A greedy solution from the leaves up, in which each class knows the set of classes that it needs, is improved by
//! moves until none helps: another choice of one class, and all choices at once that lead to a class which is not used yet, so that work which pays only when it is shared is
//! found. In small graphs branch and bound goes on from there to the best. What every solution needs gives a lower bound.

use std::collections::BTreeSet;

/// A choice of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its own cost.
    pub cost: u64,
    /// Classes that it needs.
    pub children: Vec<usize>,
}

/// What is extracted from.
#[derive(Debug, Clone, Default)]
pub struct Problem {
    /// Choices by class.
    pub classes: Vec<Vec<Choice>>,
    /// Classes that are needed.
    pub roots: Vec<usize>,
}

/// What is extracted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// The choice of each class; those that the roots do not need have one too, where they can be computed at all.
    pub choices: Vec<Option<usize>>,
    /// Sum over the classes that the roots need.
    pub cost: u64,
    /// No solution costs less.
    pub lower_bound: u64,
}

/// Most rounds over all moves.
const MAX_ROUNDS: usize = 4;
/// Most moves that are tried, so that a large graph costs no more than time in proportion to its size.
const MAX_TRIALS: usize = 6000;

/// Most classes of a graph that is searched for the best.
const MAX_SEARCHED: usize = 64;
/// Most steps of that search.
const MAX_STEPS: usize = 100_000;

/// A set of classes.
#[derive(Clone, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn new(size: usize) -> Self {
        Set(vec![0; size.div_ceil(64)])
    }

    fn insert(&mut self, member: usize) -> bool {
        let bit = 1 << (member % 64);
        let new = self.0[member / 64] & bit == 0;
        self.0[member / 64] |= bit;
        new
    }

    fn contains(&self, member: usize) -> bool {
        self.0[member / 64] & (1 << (member % 64)) != 0
    }

    fn join(&mut self, other: &Set) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }

    fn intersect(&mut self, other: &Set) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= other);
    }

    fn members(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let mut bits = *bits;
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros() as usize;
                (bits != 0).then(|| {
                    bits &= bits - 1;
                    word * 64 + bit
                })
            })
        })
    }
}

impl Problem {
    /// Cost of what the roots need with these choices; `None` where something needs itself or has no choice.
    pub fn cost(&self, choices: &[Option<usize>]) -> Option<u64> {
        self.order(choices).map(|order| self.sum(&order, choices))
    }

    fn sum(&self, order: &[usize], choices: &[Option<usize>]) -> u64 {
        let costs = order.iter().filter_map(|class| Some(self.classes[*class][choices[*class]?].cost));
        costs.fold(0, u64::saturating_add)
    }

    /// The classes that the roots need, each behind what it needs.
    pub fn order(&self, choices: &[Option<usize>]) -> Option<Vec<usize>> {
        // 0: not seen; 1: open; 2: done.
        let mut state = vec![0u8; self.classes.len()];
        let mut order = Vec::new();
        let mut stack: Vec<(usize, usize)> = Vec::new();
        for root in &self.roots {
            if state[*root] == 0 {
                state[*root] = 1;
                stack.push((*root, 0));
            }
            while let Some((class, next)) = stack.last_mut() {
                let children = &self.classes[*class][choices[*class]?].children;
                match children.get(*next) {
                    Some(child) => {
                        *next += 1;
                        match state[*child] {
                            0 => {
                                state[*child] = 1;
                                stack.push((*child, 0));
                            }
                            1 => return None,
                            _ => {}
                        }
                    }
                    None => {
                        state[*class] = 2;
                        order.push(*class);
                        stack.pop();
                    }
                }
            }
        }
        Some(order)
    }

    /// A number for each class, above those of what its choices need, but where these need the class themselves.
    fn places(&self) -> Vec<usize> {
        let mut places = vec![usize::MAX; self.classes.len()];
        let mut open = vec![false; self.classes.len()];
        let mut next = 0;
        for root in 0..self.classes.len() {
            let mut stack = vec![(root, false)];
            while let Some((class, done)) = stack.pop() {
                if done {
                    places[class] = next;
                    next += 1;
                } else if !std::mem::replace(&mut open[class], true) {
                    stack.push((class, true));
                    stack.extend(
                        self.classes[class].iter().flat_map(|choice| &choice.children).map(|child| (*child, false)),
                    );
                }
            }
        }
        places
    }

    /// The greedy solution: of each class the choice whose set of needed classes costs least.
    fn greedy(&self) -> Vec<Option<usize>> {
        let size = self.classes.len();
        let mut best: Vec<Option<(u64, usize, Set)>> = vec![None; size];
        let mut parents: Vec<Vec<usize>> = vec![Vec::new(); size];
        for (class, choices) in self.classes.iter().enumerate() {
            for child in choices.iter().flat_map(|choice| &choice.children) {
                parents[*child].push(class);
            }
        }
        parents.iter_mut().for_each(|parents| {
            parents.sort_unstable();
            parents.dedup();
        });
        let mut own = vec![0u64; size];
        // From below, so that a class is seldom looked at before what it needs is settled.
        let places = self.places();
        let mut queue: BTreeSet<(usize, usize)> = (0..size).map(|class| (places[class], class)).collect();
        // What a class needs changes with what its children need, and what it costs with what they share: it is worked out anew each time, and
        // a class that keeps changing is left alone at last.
        let mut left = vec![64u32; size];
        while let Some((_, class)) = queue.pop_first() {
            let mut least: Option<(u64, usize, Set)> = None;
            'choices: for (index, choice) in self.classes[class].iter().enumerate() {
                let mut set = Set::new(size);
                for child in &choice.children {
                    let Some((_, _, below)) = &best[*child] else { continue 'choices };
                    set.join(below);
                }
                if set.contains(class) {
                    continue;
                }
                let below: u64 = set.members().map(|member| own[member]).fold(0, u64::saturating_add);
                let cost = below.saturating_add(choice.cost);
                if least.as_ref().is_none_or(|(least, ..)| cost < *least) {
                    set.insert(class);
                    least = Some((cost, index, set));
                }
            }
            let Some(least) = least.filter(|least| best[class].as_ref() != Some(least) && left[class] > 0) else {
                continue;
            };
            left[class] -= 1;
            own[class] = self.classes[class][least.1].cost;
            best[class] = Some(least);
            queue.extend(parents[class].iter().map(|parent| (places[*parent], *parent)));
        }
        best.into_iter().map(|best| best.map(|(_, index, _)| index)).collect()
    }

    /// Classes that every solution needs, and the least that they cost together.
    fn lower_bound(&self) -> u64 {
        let size = self.classes.len();
        // The largest sets with: a class needs itself, and what all of its choices need.
        let mut needs: Vec<Option<Set>> = vec![None; size];
        let mut settled = false;
        for _ in 0..size {
            let mut changed = false;
            for class in 0..size {
                let mut common: Option<Set> = None;
                for choice in &self.classes[class] {
                    let mut set = Set::new(size);
                    if !choice
                        .children
                        .iter()
                        .all(|child| needs[*child].as_ref().map(|below| set.join(below)).is_some())
                    {
                        continue;
                    }
                    match &mut common {
                        Some(common) => common.intersect(&set),
                        None => common = Some(set),
                    }
                }
                let Some(mut common) = common else { continue };
                common.insert(class);
                if needs[class].as_ref() != Some(&common) {
                    needs[class] = Some(common);
                    changed = true;
                }
            }
            if !changed {
                settled = true;
                break;
            }
        }
        if !settled {
            return 0;
        }
        let mut all = Set::new(size);
        self.roots.iter().filter_map(|root| needs[*root].as_ref()).for_each(|below| all.join(below));
        let least = |class: usize| self.classes[class].iter().map(|choice| choice.cost).min().unwrap_or(0);
        all.members().map(least).fold(0, u64::saturating_add)
    }

    /// Choices that lead to `target`, a class that is not used: those of all classes above it up to used ones.
    fn towards(
        &self,
        target: usize,
        used: &[bool],
        choices: &[Option<usize>],
        users: &[Vec<(usize, usize)>],
    ) -> Vec<Option<usize>> {
        let mut new = choices.to_vec();
        let mut reached = vec![false; self.classes.len()];
        reached[target] = true;
        let mut queue = vec![target];
        while let Some(class) = queue.pop() {
            for (user, index) in &users[class] {
                if reached[*user] {
                    continue;
                }
                let choice = &self.classes[*user][*index];
                if choice.children.iter().any(|child| !used[*child] && !reached[*child] && choices[*child].is_none()) {
                    continue;
                }
                reached[*user] = true;
                new[*user] = Some(*index);
                if !used[*user] {
                    queue.push(*user);
                }
            }
        }
        new
    }

    /// Of one class, the other choice with which everything costs least, and what it then costs.
    pub fn best_alternative(&self, choices: &[Option<usize>], class: usize) -> Option<(usize, u64)> {
        let others = (0..self.classes[class].len()).filter(|index| choices[class] != Some(*index));
        let costs = others.filter_map(|index| {
            let mut new = choices.to_vec();
            new[class] = Some(index);
            Some((index, self.cost(&new)?))
        });
        costs.min_by_key(|(index, cost)| (*cost, *index))
    }

    /// The best solution that is found; `None` where a root cannot be computed.
    pub fn solve(&self) -> Option<Solution> {
        let mut choices = self.greedy();
        let mut cost = self.cost(&choices)?;
        let lower_bound = self.lower_bound();
        let mut users: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.classes.len()];
        for (class, list) in self.classes.iter().enumerate() {
            for (index, choice) in list.iter().enumerate() {
                for child in &choice.children {
                    if !users[*child].contains(&(class, index)) {
                        users[*child].push((class, index));
                    }
                }
            }
        }
        let trials = std::cell::Cell::new(0);
        for _ in 0..MAX_ROUNDS {
            let before = cost;
            let try_out = |new: Vec<Option<usize>>, choices: &mut Vec<Option<usize>>, cost: &mut u64| {
                trials.set(trials.get() + 1);
                if trials.get() > MAX_TRIALS {
                    return false;
                }
                if let Some(sum) = self.cost(&new)
                    && sum < *cost
                {
                    (*choices, *cost) = (new, sum);
                    return true;
                }
                false
            };
            let mut used = self.used(&choices);
            for target in 0..self.classes.len() {
                let shared = users[target].len() > 1 && choices[target].is_some();
                if cost == lower_bound || used[target] || !shared || trials.get() > MAX_TRIALS {
                    continue;
                }
                let new = self.towards(target, &used, &choices, &users);
                if try_out(new, &mut choices, &mut cost) {
                    used = self.used(&choices);
                }
            }
            for class in 0..self.classes.len() {
                for index in 0..self.classes[class].len() {
                    if cost == lower_bound || !used[class] || choices[class] == Some(index) || trials.get() > MAX_TRIALS
                    {
                        continue;
                    }
                    let mut new = choices.clone();
                    new[class] = Some(index);
                    if try_out(new, &mut choices, &mut cost) {
                        used = self.used(&choices);
                    }
                }
            }
            if cost == before || trials.get() > MAX_TRIALS {
                break;
            }
        }
        if self.classes.len() <= MAX_SEARCHED && cost > lower_bound {
            let mut search = Search { problem: self, best: cost, found: None, steps: 0 };
            let mut pending = self.roots.clone();
            pending.sort_unstable();
            pending.dedup();
            let mut needed = vec![false; self.classes.len()];
            pending.iter().for_each(|root| needed[*root] = true);
            search.walk(&mut vec![None; self.classes.len()], &mut needed, &pending, 0);
            if let Some(found) = search.found {
                // Classes that the roots do not need keep the choice that they had.
                choices.iter_mut().zip(found).for_each(|(choice, found)| *choice = found.or(*choice));
                cost = search.best;
            }
        }
        Some(Solution { choices, cost, lower_bound })
    }

    fn used(&self, choices: &[Option<usize>]) -> Vec<bool> {
        let mut used = vec![false; self.classes.len()];
        self.order(choices).into_iter().flatten().for_each(|class| used[class] = true);
        used
    }
}

/// Branch and bound over the choices of the classes that are needed.
struct Search<'p> {
    problem: &'p Problem,
    /// What a solution must cost less than.
    best: u64,
    found: Option<Vec<Option<usize>>>,
    steps: usize,
}

impl Search<'_> {
    /// Decides the classes of `pending`, of which each is needed; `cost` is that of what is decided.
    fn walk(&mut self, choices: &mut Vec<Option<usize>>, needed: &mut Vec<bool>, pending: &[usize], cost: u64) {
        let problem = self.problem;
        let least = |class: &usize| problem.classes[*class].iter().map(|choice| choice.cost).min().unwrap_or(0);
        let bound = pending.iter().map(least).fold(cost, u64::saturating_add);
        self.steps += 1;
        if bound >= self.best || self.steps > MAX_STEPS {
            return;
        }
        let Some((class, rest)) = pending.split_last() else {
            // What needs itself is no solution.
            if let Some(cost) = problem.cost(choices) {
                (self.best, self.found) = (cost, Some(choices.clone()));
            }
            return;
        };
        let mut order: Vec<usize> = (0..problem.classes[*class].len()).collect();
        order.sort_by_key(|index| problem.classes[*class][*index].cost);
        for index in order {
            let choice = &problem.classes[*class][index];
            let mut next = rest.to_vec();
            let mut new = choice.children.clone();
            new.retain(|child| !std::mem::replace(&mut needed[*child], true));
            next.extend(&new);
            choices[*class] = Some(index);
            self.walk(choices, needed, &next, cost.saturating_add(choice.cost));
            choices[*class] = None;
            new.iter().for_each(|child| needed[*child] = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least cost over all solutions.
    fn brute_force(problem: &Problem) -> Option<u64> {
        fn walk(problem: &Problem, class: usize, choices: &mut Vec<Option<usize>>, best: &mut Option<u64>) {
            if class == problem.classes.len() {
                if let Some(cost) = problem.cost(choices) {
                    *best = Some(best.map_or(cost, |best| best.min(cost)));
                }
                return;
            }
            for index in 0..problem.classes[class].len() {
                choices.push(Some(index));
                walk(problem, class + 1, choices, best);
                choices.pop();
            }
        }
        let mut best = None;
        walk(problem, 0, &mut Vec::new(), &mut best);
        best
    }

    fn random(seed: u64) -> Problem {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % bound
        };
        let size = 6 + below(6);
        let classes = (0..size)
            .map(|class| {
                (0..1 + below(3))
                    .map(|index| {
                        // Mostly downwards; cycles now and then, but the first choice never takes part in one.
                        let reach = if index > 0 && below(4) == 0 { size } else { class };
                        let count = if reach == 0 { 0 } else { below(4) };
                        Choice { cost: 1 + below(100) as u64, children: (0..count).map(|_| below(reach)).collect() }
                    })
                    .collect()
            })
            .collect();
        Problem { classes, roots: vec![size - 1, size - 2] }
    }

    #[test]
    fn within_two_percent_of_brute_force() {
        let mut exact = 0;
        for seed in 0..400 {
            let problem = random(seed);
            let best = brute_force(&problem).expect("the first choices are acyclic");
            let solution = problem.solve().expect("there is a solution");
            assert_eq!(problem.cost(&solution.choices), Some(solution.cost));
            assert!(solution.lower_bound <= best && best <= solution.cost, "seed {seed}");
            assert!(solution.cost * 100 <= best * 102, "seed {seed}: {} against {best}", solution.cost);
            exact += u32::from(solution.cost == best);
        }
        // All of them are small enough to be searched to the end.
        assert_eq!(exact, 400);
    }

    #[test]
    fn work_that_pays_only_when_shared_is_found() {
        // Three classes, each by itself for 10, or a part (1) of one that costs 18.
        let leaf = |cost| vec![Choice { cost, children: Vec::new() }];
        let mut classes = vec![leaf(18)];
        for _ in 0..3 {
            classes.push(vec![Choice { cost: 10, children: Vec::new() }, Choice { cost: 1, children: vec![0] }]);
        }
        let problem = Problem { classes, roots: vec![1, 2, 3] };
        let solution = problem.solve().expect("there is a solution");
        assert_eq!(solution.cost, 21);
        // One class by itself, the others still with the shared one.
        assert_eq!(problem.best_alternative(&solution.choices, 2), Some((0, 30)));
        assert_eq!(problem.best_alternative(&solution.choices, 0), None);
    }

    #[test]
    fn what_needs_itself_is_no_solution() {
        let cycle = vec![vec![Choice { cost: 1, children: vec![1] }], vec![Choice { cost: 1, children: vec![0] }]];
        assert_eq!(Problem { classes: cycle, roots: vec![0] }.solve(), None);
    }
}
