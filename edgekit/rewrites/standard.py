"""The rewrites that come with EdgeKit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from edgekit.rewrite import Rewrite, RewriteSet
from edgekit.rewrites import (
    arithmetic,
    blocked_scales,
    control_flow,
    fourier,
    movement,
    ngrams,
    quantized_operators,
    sampling,
)
from edgekit.rewrites.definition import Definition
from edgekit.rewrites.microsoft import (
    bitsandbytes_products,
    block_lookups,
    causal_convolutions,
    custom_exports,
    distances,
    early_operators,
    fused_products,
    gates,
    group_attention,
    linear_attention,
    mixture_of_experts,
    multimodal_rotation,
    transformer_operators,
)
from edgekit.rewrites.ml import features, linear, svm, trees
from edgekit.rewrites.recurrent import layers, sequence_lengths, steps
from edgekit.rewrites.resizing import cropping, fixed_sizes, run_time_sizes


class StandardRewrites(RewriteSet):
    """The families in ``edgekit/rewrites``; an operator's definition in the ONNX standard comes last."""

    contract_version = 1
    name: ClassVar[str] = "edgekit"

    @property
    def rewrites(self) -> Sequence[Rewrite]:
        """One of each."""
        return (
            features.Scaler(),
            features.Normalizer(),
            features.Binarizer(),
            features.Imputer(),
            features.FeatureVectorizer(),
            features.ArrayFeatureExtractor(),
            features.OneHotEncoder(),
            features.LabelEncoder(),
            features.LabelEncoderOfMissing(),
            linear.LinearRegressor(),
            linear.LinearClassifier(),
            trees.TreeEnsembleRegressor(),
            trees.TreeEnsembleClassifier(),
            trees.TreeEnsemble(),
            svm.SVMRegressor(),
            svm.SVMClassifier(),
            control_flow.ScalarCondition(),
            control_flow.BothBranches(),
            control_flow.UnrolledScan(),
            control_flow.UnrolledLoop(),
            control_flow.ExplicitStates(),
            layers.SequenceFirst(),
            sequence_lengths.SequencesOfLengths(),
            steps.SteppedLayer(),
            arithmetic.FloatRemainder(),
            arithmetic.CumulativeProduct(),
            arithmetic.SignedShift(),
            arithmetic.NarrowArithmetic(),
            arithmetic.WholeBias(),
            arithmetic.StableLogSumExp(),
            arithmetic.SummedReduction(),
            arithmetic.GreatestOfNothing(),
            arithmetic.ProductOfFourDimensions(),
            arithmetic.WholeVectorAverage(),
            arithmetic.NoDropout(),
            arithmetic.FlattenedSoftmax(),
            arithmetic.Determinant(),
            arithmetic.HasElement(),
            movement.WrappedPad(),
            movement.ChosenPad(),
            movement.SlicedGather(),
            movement.EndlessSlice(),
            movement.SlicedSplit(),
            movement.PermutingEinsum(),
            movement.PaddedTransposition(),
            movement.UpwardPool(),
            movement.PaddedAverage(),
            movement.ScatteredUnpool(),
            movement.ConvolvedColumns(),
            movement.ScatteredTensor(),
            fixed_sizes.TabledResize(),
            fixed_sizes.TabledUpsample(),
            cropping.GatheredCrop(),
            run_time_sizes.GatheredResize(),
            sampling.GatheredGrid(),
            sampling.GatheredRegions(),
            fourier.WholeTransform(),
            fourier.TwoStepTransform(),
            fourier.TabledTransform(),
            fourier.FramedTransform(),
            ngrams.ComparedNgrams(),
            quantized_operators.QuantizedProduct(),
            quantized_operators.QuantizedConvolution(),
            quantized_operators.QuantizedGemm(),
            quantized_operators.QuantizedElementwise(),
            quantized_operators.ChannelsLastPool(),
            quantized_operators.QuantizedChoice(),
            blocked_scales.WholeBlocks(),
            distances.DistancesByProduct(),
            transformer_operators.SummedEmbeddings(),
            transformer_operators.SelfAttention(),
            group_attention.GroupedAttention(),
            block_lookups.BlockLookup(),
            causal_convolutions.CausalConvolution(),
            bitsandbytes_products.BlockProduct(),
            transformer_operators.RotatedPairs(),
            fused_products.ActivatedGemm(),
            fused_products.TransposedProduct(),
            custom_exports.CofactorInverse(),
            custom_exports.StandardGrid(),
            custom_exports.StandardShape(),
            custom_exports.FirstOccurrences(),
            early_operators.SameOperator(),
            early_operators.StandardRange(),
            early_operators.SlidingParts(),
            early_operators.WideProduct(),
            early_operators.FixedPads(),
            gates.GatedNormalization(),
            gates.GatedSum(),
            gates.ScaledSilu(),
            gates.EngramGate(),
            gates.BranchwiseNormalization(),
            gates.MixedStreams(),
            gates.FedStreams(),
            linear_attention.LinearAttention(),
            linear_attention.LinearAttentionGate(),
            mixture_of_experts.MixtureOfExperts(),
            multimodal_rotation.RotatedByThreePositions(),
            Definition(),
        )
