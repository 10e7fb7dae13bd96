"""A class with setup() and train() alone, as Cog documents it."""


class Trainer:
    def setup(self) -> None:
        self.greeting = "set up"

    def train(self, name: str) -> str:
        return f"{self.greeting} {name}"
