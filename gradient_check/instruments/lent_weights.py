"""The memory of a large module's private base and replica: no more copies than needed.

The first inference runs on a private copy, because the inference might write to the weights. If
the weights are unchanged afterwards, the copy becomes the replica's own values, and the base uses
the caller's memory. The base of a small module has a copy of its own.
"""

from collections.abc import Collection, Mapping

from torch import Tensor, nn

SMALL_BYTES = 2**20  # a smaller module is restored from a copy


class LentWeights:
    """The weights of a caller's module, lent to its base and to the untrained part of its replica.

    Args:
        module: the caller's module.
        users: the base and its template, whose parameters have the names of the module's.
        parameters: the replica's trained parameters, at the module's values.
    """

    def __init__(
        self,
        module: nn.Module,
        users: tuple[nn.Module, ...],
        parameters: Mapping[str, nn.Parameter],
    ) -> None:
        self._own = {name: p.detach() for name, p in module.named_parameters()}
        self._users = users
        self._parameters = parameters
        self._lent: set[str] = set()
        self._is_safe = True

    @property
    def private_bytes(self) -> int:
        """The bytes of the copies that `keep_private` makes."""
        own = self._own.items()
        return sum(tensor.nbytes for name, tensor in own if not self._is_alike(name))

    def keep_private(self) -> None:
        """Give the base values whose writes cannot reach the module: the replica's, or copies."""
        self._give({name: self._private(name) for name in self._own})

    def _private(self, name: str) -> Tensor:
        is_alike = self._is_alike(name)
        return self._parameters[name].detach() if is_alike else self._own[name].clone()

    def _is_alike(self, name: str) -> bool:
        trained = self._parameters.get(name)
        return trained is not None and trained.dtype == self._own[name].dtype

    def lend(self) -> None:
        """Give the base the module's own values."""
        self._give(self._own)

    def copy(self) -> None:
        """Give the base its own copies of the module's values, and stop lending."""
        self._is_safe = False
        self._give({name: tensor.clone() for name, tensor in self._own.items()})

    def _give(self, values: Mapping[str, Tensor]) -> None:
        for user in self._users:
            for name, parameter in user.named_parameters():
                parameter.data = values[name]

    def put_back(self, names: Collection[str]) -> None:
        """Restore the replica's parameters of these names to the module's values."""
        for name in names:
            parameter, own = self._parameters[name], self._own[name]
            if name in self._lent:
                parameter.data = own.to(parameter.dtype, copy=True)
                self._lent.discard(name)
            else:
                parameter.data.copy_(own)

    def lend_all_but(self, names: Collection[str]) -> None:
        """Move the replica's other parameters into the module's memory; restore these."""
        for name, parameter in self._parameters.items():
            if self._is_safe and name not in names:
                parameter.data = self._own[name].to(parameter.dtype)
                self._lent.add(name)
        self.put_back(names)
