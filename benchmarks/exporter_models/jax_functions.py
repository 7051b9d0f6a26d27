"""JAX models, exported by jax2onnx."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from exporter_models import Maker, Shapes


def of_jax() -> Iterator[tuple[str, Shapes, Maker]]:
    """JAX functions, and networks of Flax."""
    import jax
    import jax.numpy as jnp
    import jax2onnx
    from flax import nnx

    random = nnx.Rngs(0)
    weight = jnp.asarray(jax.random.normal(jax.random.PRNGKey(0), (6, 8)))

    class Perceptron(nnx.Module):
        def __init__(self) -> None:
            self.first, self.norm, self.last = nnx.Linear(6, 8, rngs=random), nnx.LayerNorm(8, rngs=random), nnx.Linear(
                8, 3, rngs=random
            )  # fmt: skip

        def __call__(self, x: Any) -> Any:
            return jax.nn.softmax(self.last(jax.nn.gelu(self.norm(self.first(x)))))

    class Convolutions(nnx.Module):
        def __init__(self) -> None:
            self.first = nnx.Conv(3, 8, (3, 3), strides=2, rngs=random)
            self.norm = nnx.BatchNorm(8, use_running_average=True, rngs=random)

        def __call__(self, x: Any) -> Any:
            return nnx.avg_pool(jax.nn.relu(self.norm(self.first(x))), (2, 2), (2, 2)).mean((1, 2))

    class Attention(nnx.Module):
        def __init__(self) -> None:
            self.layer = nnx.MultiHeadAttention(2, 6, 8, decode=False, rngs=random)

        def __call__(self, x: Any) -> Any:
            return self.layer(x)

    def recurrent(x: Any) -> Any:
        def step(state: Any, row: Any) -> tuple[Any, Any]:
            state = jnp.tanh(row @ weight + 0.5 * state)
            return state, state

        return jax.lax.scan(step, jnp.zeros(8), x[0])[1]

    functions: list[tuple[str, Callable[[Any], Any], tuple[int, ...]]] = [
        ("gelu", lambda x: jax.nn.gelu(x @ weight), (1, 5, 6)),
        ("softmax", lambda x: jax.nn.softmax(x, axis=-1), (1, 5, 6)),
        ("norm", lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5), (1, 5, 6)),
        ("silu", lambda x: jax.nn.silu(x).sum(1), (1, 5, 6)),
        ("argmax", lambda x: x.argmax(-1), (1, 5, 6)),
        ("sort", lambda x: jnp.sort(x, axis=-1), (1, 5, 6)),
        ("cumsum", lambda x: jnp.cumsum(x, axis=1), (1, 5, 6)),
        ("where", lambda x: jnp.where(x > 0, jnp.log1p(jnp.abs(x)), jnp.expm1(x)), (1, 5, 6)),
        ("einsum", lambda x: jnp.einsum("bij,bkj->bik", x, x), (1, 5, 6)),
        ("resize", lambda x: jax.image.resize(x, (1, 16, 16, 3), "bilinear"), (1, 8, 8, 3)),
        ("pad", lambda x: jnp.pad(x, ((0, 0), (1, 2), (2, 1)), mode="reflect"), (1, 5, 6)),
        ("scan", recurrent, (1, 5, 6)),
        ("fori", lambda x: jax.lax.fori_loop(0, 4, lambda _, s: jnp.sin(s) + x, x), (1, 5, 6)),
        ("cond", lambda x: jax.lax.cond(x.sum() > 0, lambda: x * 2, lambda: x - 1), (1, 5, 6)),
        ("gather", lambda x: x[:, jnp.array([0, 2, 4])], (1, 5, 6)),
        ("scatter", lambda x: x.at[:, 1].set(0.0), (1, 5, 6)),
        ("flax_perceptron", Perceptron(), (2, 6)),
        ("flax_convolutions", Convolutions(), (1, 16, 16, 3)),
        ("flax_attention", Attention(), (1, 5, 6)),
    ]

    def maker_of(function: Callable[[Any], Any], shape: tuple[int, ...]) -> Maker:
        def maker(path: Path) -> None:
            proto = jax2onnx.to_onnx(function, inputs=[jax.ShapeDtypeStruct(shape, jnp.float32)])
            path.write_bytes(proto.SerializeToString())

        return maker

    for name, function, shape in functions:
        yield name, {}, maker_of(function, shape)
