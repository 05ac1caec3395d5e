"""Train a LexMAE: pretraining, negatives, and the stages of fine-tuning."""

from typing import Any

import click

from lexbench.cli import _training as training


@click.group()
def command() -> None:
    """Train a LexMAE, as the TOML file RECIPE says, or one of lexbench's own recipes, as msmarco.

    What is finished is not done again, and what was interrupted goes on. Several GPUs: torchrun --nproc-per-node 8 -m lexbench
    train ...
    """


@command.command()
@training.common
@training.fitting
def pretrain(name: str, settings: tuple[str, ...], *, dry_run: bool, as_json: bool, **shorthands: Any) -> None:
    """Pretrain the masked autoencoder, after making the initial model."""
    _one("pretrain", "pretrain", name, settings, dry_run=dry_run, as_json=as_json, **shorthands)


@command.command()
@training.common
@training.stage
def mine(name: str, stage: int, settings: tuple[str, ...], *, dry_run: bool, as_json: bool, **shorthands: Any) -> None:
    """Find the negatives of a stage."""
    _one("mine", f"stage{stage}", name, settings, dry_run=dry_run, as_json=as_json, **shorthands)


@command.command()
@training.common
@training.fitting
@training.stage
def finetune(name: str, stage: int, settings: tuple[str, ...], *, dry_run: bool, as_json: bool, **shorthands: Any) -> None:
    """Train the retriever of a stage on its negatives."""
    _one("finetune", f"stage{stage}", name, settings, dry_run=dry_run, as_json=as_json, **shorthands)


@command.command("all")
@training.common
def everything(name: str, settings: tuple[str, ...], *, dry_run: bool, as_json: bool, **shorthands: Any) -> None:
    """Pretrain, then mine and fine-tune each stage of the recipe."""
    from lexbench.lexmae import work

    recipe = training.open_recipe(name, settings, **shorthands)
    training.carry_out(recipe, work.parts(recipe), name, dry_run=dry_run, as_json=as_json)


def _one(
    kind: Any, section: str, name: str, settings: tuple[str, ...], *, dry_run: bool, as_json: bool, **shorthands: Any
) -> None:
    from lexbench.lexmae import work

    recipe = training.open_recipe(name, settings, section, **shorthands)
    number = int(section.removeprefix("stage")) if section.startswith("stage") else 0
    training.carry_out(recipe, work.part(recipe, kind, number), name, dry_run=dry_run, as_json=as_json)
