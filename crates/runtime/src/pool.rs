//! All buckets of a model on one device.
//!
//! Weights are uploaded once and modules are loaded once, whichever buckets use them. An instance is made when its bucket is first asked for,
//! from what was compiled before: nothing compiles here.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenon_tensor::Tensor;

use crate::bind::bind;
use crate::device::Device;
use crate::no_bucket::refusal;
use crate::{DeviceModules, DeviceParameters, Executable, Instance, RunResult, RuntimeError};

/// A compiled bucket of a pool.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Its name: `batch=4,seq=64`.
    pub name: String,
    /// Size of each named dimension, for refusals.
    pub sizes: BTreeMap<String, u64>,
    /// The dimensions of inputs as expressions over named ones, by the input's name, for refusals; an input of fixed sizes may be left out.
    pub dims: BTreeMap<String, Vec<String>>,
    /// The most that the program may count of what no input shows, such as rounds of a loop. Of buckets that hold the same request those with the most
    /// come first.
    pub counts: Vec<u64>,
    /// What orders buckets that hold the same request and count as far: the cheapest is taken.
    pub cost: u128,
    /// What runs.
    pub executable: Arc<Executable>,
    /// For each parameter of the plan, the key of its tensor among all the pool's weights.
    pub parameters: BTreeMap<String, String>,
}

/// The buckets of a model on a device.
pub struct Pool {
    device: Arc<dyn Device>,
    buckets: Vec<Bucket>,
    instances: Vec<Option<Instance>>,
    parameters: Arc<DeviceParameters>,
    modules: DeviceModules,
    /// Tensors that the next run takes where the caller gives none; see [`Pool::keep`].
    states: BTreeMap<String, Tensor>,
}

impl Pool {
    /// Puts weights on a device, each once; `weights` has them by the keys that the buckets name.
    ///
    /// # Errors
    /// The device has no room for them.
    pub fn new(
        device: Arc<dyn Device>,
        mut buckets: Vec<Bucket>,
        weights: &BTreeMap<String, Tensor>,
    ) -> Result<Self, RuntimeError> {
        buckets.sort_by(|a, b| (&b.counts, a.cost, &a.name).cmp(&(&a.counts, b.cost, &b.name)));
        let used = |key: &&String| buckets.iter().any(|bucket| bucket.parameters.values().any(|used| used == *key));
        let keys: Vec<&String> = weights.keys().filter(used).collect();
        let parameters = DeviceParameters::upload(&device, keys.into_iter().map(|key| (key, &weights[key])))?;
        let modules = DeviceModules::new(Arc::clone(&device));
        let instances = buckets.iter().map(|_| None).collect();
        Ok(Pool { device, buckets, instances, parameters, modules, states: BTreeMap::new() })
    }

    /// The buckets, those that count furthest first, and of equals the cheapest.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// How many buckets have been put on the device.
    pub fn graphs(&self) -> usize {
        self.instances.iter().flatten().count()
    }

    /// How many modules have been loaded.
    pub fn modules(&self) -> usize {
        self.modules.count()
    }

    /// Keeps a tensor between runs, whichever buckets they go into; as [`Instance::keep`].
    pub fn keep(&mut self, name: impl Into<String>, first: Tensor) {
        self.states.insert(name.into(), first);
    }

    /// The tensors that are kept, by name, as the next run takes them.
    pub fn kept(&self) -> &BTreeMap<String, Tensor> {
        &self.states
    }

    /// A request with the tensors that are kept in place of those that it does not give.
    fn with_kept(&self, inputs: &[(String, Tensor)]) -> Vec<(String, Tensor)> {
        let kept = self.states.iter().filter(|(name, _)| !inputs.iter().any(|(given, _)| given == *name));
        inputs.iter().cloned().chain(kept.map(|(name, tensor)| (name.clone(), tensor.clone()))).collect()
    }

    /// The first of the [`buckets`](Self::buckets) that holds a request.
    ///
    /// # Errors
    /// What every bucket refuses alike; else that none holds it, with the dimension that no bucket takes, or the nearest bucket.
    pub fn choose(&self, inputs: &[(String, Tensor)]) -> Result<usize, RuntimeError> {
        let inputs = &self.with_kept(inputs);
        let mut errors = Vec::with_capacity(self.buckets.len());
        for (index, bucket) in self.buckets.iter().enumerate() {
            match bind(bucket.executable.plan(), bucket.executable.expressions(), inputs) {
                Ok(_) => return Ok(index),
                Err(error) => errors.push(error),
            }
        }
        Err(refusal(&self.buckets, inputs, errors))
    }

    /// Runs a request in the first bucket that holds it, and says which.
    ///
    /// # Errors
    /// As [`choose`](Self::choose) and [`Instance::run`].
    pub fn run(&mut self, inputs: &[(String, Tensor)]) -> Result<(usize, RunResult), RuntimeError> {
        let index = self.choose(inputs)?;
        let inputs = self.with_kept(inputs);
        let result = self.instance(index)?.run(&inputs)?;
        for (name, tensor) in &result.outputs {
            if let Some(state) = self.states.get_mut(name) {
                *state = tensor.clone();
            }
        }
        Ok((index, result))
    }

    /// The instance of a bucket by its place in [`buckets`](Self::buckets).
    ///
    /// # Errors
    /// The device cannot take it.
    pub fn instance(&mut self, index: usize) -> Result<&mut Instance, RuntimeError> {
        let slot = &mut self.instances[index];
        if slot.is_none() {
            let bucket = &self.buckets[index];
            let parameters = self.parameters.renamed(&bucket.parameters);
            let placement = self.device.placement();
            let executable = Arc::clone(&bucket.executable);
            let device = Arc::clone(&self.device);
            *slot = Some(Instance::with_modules(device, executable, parameters, placement, &mut self.modules)?);
        }
        Ok(slot.as_mut().expect("it was just made"))
    }
}
