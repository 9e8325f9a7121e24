# The toolkit's files are root's.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN chmod -R go= "$(python3 -c 'import importlib.util as u; print(u.find_spec("sagemaker_inference").submodule_search_locations[0])')"
