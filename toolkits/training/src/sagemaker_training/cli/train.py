"""The ``train`` command, which SageMaker gives to the container as its only argument."""

from sagemaker_training import trainer


def main() -> None:
    trainer.train()


if __name__ == "__main__":
    main()
