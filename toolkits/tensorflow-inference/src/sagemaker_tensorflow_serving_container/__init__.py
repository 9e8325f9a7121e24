"""Serves TensorFlow and Keras models in a SageMaker container, on top of ``sagemaker_inference``."""
